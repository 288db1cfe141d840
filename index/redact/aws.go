package redact

// The family of Amazon's keys. The secret half has no form of its own beyond
// forty bytes of base64: assign.go finds it by its name, and pairedKey where it
// stands beside the other half.
var awsRules = []rule{
	{
		name: "aws-access-key", kind: "aws-access-key", match: (*Scrubber).matchAWS, exact: true,
		anchors: []string{"AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA"},
		hit:     []string{"| ci-bot | ‹AKIA{u16}› |", "aws_access_key_id = ‹ASIA{u16}›\n", `"‹AKIA{u16}›"`, "key ‹AKIA{u16}› secret ‹{b20}/{b19}›."},
		miss:    []string{"AKIA****************", "AKIA‹u20›", "xAKIA‹u16›", "AKIAlowercase00000000"},
	},
	{
		name: "aws-secret", kind: "aws-secret", match: (*Scrubber).matchAWSSecret,
		anchors: []string{"secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret", "session_token", "sessiontoken", "security_token"},
		hit: []string{
			"AWS_SECRET_ACCESS_KEY=‹{b40}›", `"SecretAccessKey": "‹{b40}›",`, "aws configure set aws_secret_access_key ‹{b40}›", "aws_secret_access_key = \n  ‹{b40}›\nregion = x",
			`"SessionToken": "‹{b300}›"`, "rclone config create r s3 secret_access_key ‹an20›",
		},
		miss: []string{"aws_secret_access_key = ...", "AWS_SECRET_ACCESS_KEY is not set", "secret_access_key: ${KEY}", "process.env.AWS_SECRET_ACCESS_KEY"},
	},
}

// matchAWS finds the id of a key, and the secret that follows it closely.
func (s *Scrubber) matchAWS(at, end int) {
	hi := s.upTo(setUpper, end, 17)
	if hi-end != 16 || s.inWord(hi) || !s.startsToken(at) || placeholder(s.text[end:hi]) {
		return
	}
	s.mark(at, hi)
	s.pairedKey(hi)
}

// pairedKey marks the first forty bytes of base64 that stand by themselves
// soon after the id of a key.
func (s *Scrubber) pairedKey(i int) {
	for limit := min(i+64, len(s.text)); i < limit; i++ {
		if s.sets[s.text[i]]&setBase64 == 0 {
			continue
		}
		hi := s.upTo(setBase64, i, 41)
		if p := profileOf(s.text[i:hi]); hi-i == 40 && p.generated() && !p.hexOnly {
			s.mark(i, hi)
			return
		}
		i = hi
	}
}

// matchAWSSecret marks the value of a name that only Amazon's keys have. It is
// base64, so that it may begin with a slash as a path does.
func (s *Scrubber) matchAWSSecret(at, end int) {
	v, ok := s.valueOf(s.nameAt(at, end))
	if !ok {
		return
	}
	text := s.text[v.lo:v.hi]
	s.steps += min(len(text), profileMax)
	if len(text) < 16 || placeholder(text) {
		return
	}
	if p := profileOf(text); p.digit > 0 && p.upper > 0 && p.lower > 0 && p.blank == 0 && p.turns*4 >= p.n {
		s.mark(v.lo, v.hi)
	}
}
