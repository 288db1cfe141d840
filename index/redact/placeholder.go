package redact

import "strings"

// placeholder reports whether the value stands for one that is elsewhere: a
// variable, a template, a reference to a vault, stars, an earlier redaction.
func placeholder(v string) bool {
	v = v[:min(len(v), profileMax)]
	if v == "" {
		return true
	}
	switch v[0] {
	case '$':
		if len(v) > 1 && (v[1] == '{' || v[1] == '(' || v[1] == '[' || variable(v[1:])) {
			return true
		}
	case '%':
		if last := len(v) - 1; last > 0 && v[last] == '%' && variable(v[1:last]) {
			return true
		}
	case '<', '{', '[', '(':
		return true
	case '!', '&', '@', '*':
		if rest := v[1:]; rest != "" && (profileOf(rest).wordy() || isCode(rest, profileOf(rest))) {
			return true // a YAML tag or anchor, a pointer, a file for curl
		}
	case '\\':
		return true // an escape
	case '_':
		if strings.HasPrefix(v, "__") && strings.HasSuffix(v, "__") {
			return true
		}
	}
	for _, part := range [...]string{"[redacted", "${", "{{", "$(", "***", "...", "…", "<%", "%s", "%v", "%d"} {
		if strings.Contains(v, part) {
			return true
		}
	}
	for _, p := range references {
		if hasPrefixFold(v, p) {
			return true
		}
	}
	return stock(v)
}

var references = []string{
	"op://", "vault:", "enc[", "enc(", "sops:", "ref+", "arn:", "ssm:", "kms:", "keyring:", "file:", "env:", "env.",
	"aws-sm:", "gcp-sm:", "secretref:", "http://", "https://", "data:", "resolve:", "projects/", "akv:", "bws:",
}

// stock reports whether the value is one that documentation writes.
func stock(v string) bool {
	if same := strings.Count(v, v[:1]); same == len(v) || same > 6 && same*2 > len(v) {
		return true
	}
	if p := profileOf(v); p.digit > 1 && p.turns*4 >= p.n {
		return false // random letters spell words, too
	}
	for i := range len(v) {
		switch c := fold(v[i]); c {
		case 'y', 'x', 'c', 'p', 'r', 'e', 'd', 'i':
			for _, w := range stockWords {
				if w[0] == c && hasPrefixFold(v[i:], w) {
					return true
				}
			}
		}
	}
	return false
}

var stockWords = []string{"your", "xxxx", "changeme", "change-me", "change_me", "placeholder", "redacted", "example", "replace", "dummy", "insert"}

// containsFold reports whether the lower-case word stands in v.
func containsFold(v, word string) bool {
	for i := 0; i+len(word) <= len(v); i++ {
		if fold(v[i]) == word[0] && equalFold(v[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// variable reports whether s is a name and nothing else.
func variable(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) || i == 0 && isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

// isPath reports whether the value names a file or a place in a tree.
func isPath(v string, p profile) bool {
	switch {
	case strings.HasPrefix(v, "./"), strings.HasPrefix(v, "../"), strings.HasPrefix(v, "~/"), strings.HasPrefix(v, `\\`):
		return true
	case len(v) > 2 && isAlpha(v[0]) && v[1] == ':' && (v[2] == '\\' || v[2] == '/'):
		return true
	case p.soft == 0:
		return false
	}
	if dot := strings.LastIndexByte(v, '.'); dot > 0 && len(v) <= 128 && oneOf(v[dot+1:], extensions) {
		return true
	}
	return strings.IndexByte(v, '/') >= 0 && p.hard == 0 && plainParts(v)
}

// plainParts reports whether what stands between slashes are names: letters,
// marks that join them, and numbers at their ends.
func plainParts(v string) bool {
	v = v[:min(len(v), profileMax)]
	for i := 1; i < len(v); i++ {
		if isDigit(v[i-1]) && isAlpha(v[i]) && v[i] != 'x' {
			return false
		}
	}
	return !profileOf(v).generated()
}

var extensions = []string{
	"pem", "key", "crt", "cer", "der", "json", "jsonl", "yaml", "yml", "txt", "env", "toml", "ini", "conf", "cfg", "config", "xml",
	"properties", "p12", "pfx", "jks", "go", "py", "js", "mjs", "cjs", "ts", "tsx", "jsx", "rb", "sh", "md", "log", "db", "asc", "gpg",
	"pub", "html", "css", "java", "rs", "c", "h", "cpp", "cs", "php", "sql", "lock", "enc", "age", "kdbx", "tf", "tfvars", "tpl", "service",
	"local", "example", "sample", "template", "vue", "svelte", "kt", "swift", "ex", "exs", "zip", "gz", "com", "org", "net", "io",
}

// camel reports whether a value without quotes is the name of something else:
// words in camel case, with numbers between. As a password it would be one.
func camel(v string, p profile) bool {
	return p.upper > 0 && p.spelled*5 >= p.n*2 && variable(v) && isAlpha(v[len(v)-1])
}

// isCode reports whether a value without quotes is an expression: names joined
// by dots of which none looks generated.
func isCode(v string, p profile) bool {
	if p.hard > 0 || p.foreign > 0 {
		return false
	}
	if strings.IndexByte(v, '.') < 0 {
		return strings.Contains(v, "::")
	}
	for part := range strings.SplitSeq(v, ".") {
		if part == "" || !variable(part) || profileOf(part).generated() {
			return false
		}
	}
	return true
}
