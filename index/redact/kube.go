package redact

import "strings"

// The family of Kubernetes secrets, whose values are in base64.
var kubeRules = []rule{
	{
		name: "kubernetes-secret", kind: "kubernetes-secret", match: (*Scrubber).matchKube, anchors: []string{"kind: secret"},
		hit: []string{
			"apiVersion: v1\nkind: Secret\ndata:\n  db-password: ‹{an18}==›\ntype: Opaque", "apiVersion: v1\ndata:\n  user: ‹an16›\n  x.y: ‹{an18}==›\nkind: Secret\nmetadata:\n  name: a1\n",
		},
		miss: []string{"kind: SecretProviderClass\ndata:\n  a: ‹an16›\n", "kind: ConfigMap\ndata:\n  a: ‹an16›\n", "kind: Secret\nmetadata:\n  uid: ‹uuid›\n", "kind: Secret\ndata:\n  a: {{ .Values.a }}\n"},
	},
	{
		name: "docker-config", kind: "kubernetes-secret", match: (*Scrubber).matchDockerConfig, anchors: []string{".dockerconfigjson", ".dockercfg"},
		hit:  []string{"  .dockerconfigjson: ‹{b80}›\n", `".dockerconfigjson": "‹{b80}›"`},
		miss: []string{".dockerconfigjson: {{ .Values.x }}", "type: kubernetes.io/dockerconfigjson", "--from-file=.dockerconfigjson=a.json"},
	},
}

// kubeMax bounds how far data may stand from the kind of its document.
const kubeMax = 8 << 10

// matchKube marks the rows under data: of the document around its kind.
func (s *Scrubber) matchKube(at, end int) {
	if at < s.document || s.inWord(end) {
		return
	}
	from := max(at-kubeMax, s.document)
	if i := strings.LastIndex(s.text[from:at], "\n---"); i >= 0 {
		from += i
	}
	to := min(end+kubeMax, len(s.text))
	if i := strings.Index(s.text[end:to], "\n---"); i >= 0 {
		to = end + i
	}
	s.document = to
	s.steps += 3 * (to - from)
	i := strings.Index(s.text[from:to], "data:")
	if i < 0 || i > 0 && s.sets[s.text[from+i-1]]&setBlank == 0 {
		return
	}
	indent := from + i - s.lineOf(from+i)
	for i = s.run(setLine, from+i); i < to; i = s.run(setLine, i) {
		i++
		lo := s.upTo(setSpace, i, 128)
		if lo-i <= indent && lo < to && s.text[lo] != '\n' {
			return
		}
		colon := s.upTo(setDotted, lo, 128)
		if colon+1 >= len(s.text) || s.text[colon] != ':' {
			continue
		}
		lo = s.run(setSpace, colon+1)
		hi := s.run(setBase64, lo)
		if hi-lo >= 8 && (hi == len(s.text) || s.sets[s.text[hi]]&setBlank != 0) {
			s.mark(lo, hi)
		}
	}
}

// lineOf returns the start of the line that i is in, which is near.
func (s *Scrubber) lineOf(i int) int { return s.back(setSpace, i, 128) }

// matchDockerConfig marks the base64 after its key.
func (s *Scrubber) matchDockerConfig(at, end int) {
	v, ok := s.valueOf(name{lo: at, hi: end})
	if !ok || v.sep != sepColon {
		return
	}
	if hi := s.run(setBase64, v.lo); hi-v.lo >= 16 && hi >= v.hi {
		s.mark(v.lo, hi)
	}
}
