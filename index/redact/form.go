package redact

import "strings"

// The family of credentials whose form is known but is no shape: some have no
// three bytes in common, others are the path of a URL.
var hookRules = []rule{
	{
		name: "twilio-key", kind: "twilio", match: (*Scrubber).matchTwilio, exact: true,
		anchors: []string{"SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd", "SKe", "SKf"},
		hit:     []string{"sid ‹SK{h32}› ok"},
		miss:    []string{"sid SK‹h40›", "sid TASK‹h32›", "SK0001"},
	},
	{
		name: "azure-client-secret", kind: "azure", match: (*Scrubber).matchEntra, exact: true,
		anchors: []string{"7Q~", "8Q~"},
		hit:     []string{`client = Client("‹{an3}8Q~{t34}›")`},
		miss:    []string{"8Q~short", "x-8Q~‹t34› ok"},
	},
	{
		name: "dotted-token", kind: "discord", match: (*Scrubber).matchDotted,
		hit:  []string{"bot ‹M{an25}.{an6}.{t38}› joined"},
		miss: []string{"com.example.verylongpackagename.service", "‹an26›.‹an6›.json"},
	},
	{
		name: "mailgun-domain", kind: "mailgun", match: (*Scrubber).matchMailgun,
		hit:  []string{"‹{h32}-{h8}-{h8}›"},
		miss: []string{"‹h32›-‹h8›", "‹uuid›"},
	},
	{
		name: "webhook", kind: "webhook", match: (*Scrubber).matchHook,
		anchors: []string{
			"hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/webhookb2/", "hooks.zapier.com/hooks/",
			"maker.ifttt.com/trigger/", "open.feishu.cn/open-apis/bot/v2/hook/", "open.larksuite.com/open-apis/bot/v2/hook/", "api.telegram.org/bot",
		},
		hit: []string{
			"notify: https://hooks.slack.com/services/‹T{u10}/B{u10}/{an24}›", "https://discord.com/api/webhooks/‹{d18}/{t68}›?wait=true",
			"curl https://hooks.slack.com/workflows/‹T{u10}/A{u10}/{d18}/{an24}›",
		},
		miss: []string{"https://hooks.slack.com/services/T000/B000/XXXXXXXX", "see discord.com/api/webhooks/ in the docs", "https://hooks.slack.com/services/${SLACK_PATH}"},
	},
	{
		name: "shared-access-signature", kind: "signature", match: (*Scrubber).matchQuery,
		anchors: []string{"?sig=", "&sig=", "?code=", "&code="},
		hit:     []string{"https://logs01.blob.core.windows.net/c/f.txt?sv=2024-11-04&sp=r&sig=‹{an20}%2F{an22}%3D›&sr=b"},
		miss:    []string{"/search?code=E1234", "?sig=none&x=1", "/oauth?code=${CODE}"},
	},
}

// matchTwilio finds an API key: SK and 32 hex digits.
func (s *Scrubber) matchTwilio(at, end int) {
	if hi := s.upTo(setLowHex, end-1, 33); hi-end+1 == 32 && s.startsToken(at) && !s.inWord(hi) {
		s.mark(at, hi)
	}
}

// matchEntra finds a client secret of Entra: three bytes, a version, Q~, the rest.
func (s *Scrubber) matchEntra(at, end int) {
	lo, hi := at-3, s.upTo(setOpaque, end, 40)
	if lo >= 0 && s.back(setOpaque, at, 4) == lo && hi-end >= 31 && hi-end <= 35 && !written(s.text[end:hi]) {
		s.mark(lo, hi)
	}
}

// inWord reports whether a word goes on at i.
func (s *Scrubber) inWord(i int) bool { return i < len(s.text) && isWord(s.text[i]) }

// matchDotted finds a bot token of Discord, which is three parts with dots
// between: an id in base64, a time, a signature.
func (s *Scrubber) matchDotted(lo, hi int) {
	if hi-lo < 50 || hi-lo > 80 || strings.IndexByte("MNO", s.text[lo]) < 0 {
		return
	}
	t := s.text[lo:hi]
	s.steps += len(t)
	dot := strings.IndexByte(t, '.')
	if dot < 23 || dot > 28 || dot+7 >= len(t) || t[dot+7] != '.' || len(t)-dot-8 < 27 || strings.IndexByte(t[dot+8:], '.') >= 0 {
		return
	}
	if !written(t[dot+8:]) {
		s.mark(lo, hi)
	}
}

// matchMailgun finds a sending key: 32, 8 and 8 hex digits with dashes between.
func (s *Scrubber) matchMailgun(lo, hi int) {
	if hi-lo != 50 || s.text[lo+32] != '-' || s.text[lo+41] != '-' {
		return
	}
	for i := lo; i < hi; i++ {
		if s.sets[s.text[i]]&setLowHex == 0 && i != lo+32 && i != lo+41 {
			return
		}
	}
	s.steps += 50
	s.mark(lo, hi)
}

// matchHook marks the path of a webhook, after the words that name its kind.
func (s *Scrubber) matchHook(at, end int) {
	lo := end
	for _, word := range [...]string{"services/", "workflows/", "triggers/", "catch/"} {
		if strings.HasPrefix(s.text[lo:], word) {
			lo += len(word)
		}
	}
	hi := s.run(setOpaque, lo)
	path := s.text[lo:hi]
	if len(path) < 20 || placeholder(path) || profileOf(path).wordy() {
		return
	}
	s.mark(lo, hi)
}

// matchQuery marks a parameter of a URL that is a credential when it looks
// generated: a short name says too little by itself.
func (s *Scrubber) matchQuery(_, end int) {
	hi := s.run(setBare, end)
	v := s.text[end:min(hi, end+profileMax)]
	if p := profileOf(v); p.n >= opaqueMin && p.upper > 0 && p.lower > 0 && p.digit > 0 && p.turns*4 >= p.n && !placeholder(v) {
		s.mark(end, hi)
	}
}
