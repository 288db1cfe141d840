package redact

import "strings"

// secretNames are the words that make a name that of a secret, in lower case.
// They are looked for in the last 48 bytes before the separator.
var secretNames = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "access_key", "accesskey",
	"access-key", "private_key", "credential", "auth_key", "client_secret", "encryption_key", "signing_key", "_pass", "_key",
	"contraseña", "contrasena", "senha", "mot de passe", "passwort", "kennwort", "пароль", "секрет", "şifre", "hasło", "密码", "口令", "パスワード", "비밀번호",
}

const maxName = 48

// assignment matches the value of NAME=value, "name": "value", name: value and
// --name=value, where the name is that of a secret.
func assignment(text string, i int) finding {
	from := i + 1
	if text[i] == ':' && from < len(text) && text[from] == '=' {
		from++
	}
	strong := secretName(text[max(0, i-maxName):i])
	if !strong {
		return finding{}
	}
	for from < len(text) && (text[from] == ' ' || text[from] == '\t') && from-i < 8 {
		from++
	}
	if strings.HasPrefix(text[from:], `\"`) {
		from++
	}
	if from >= len(text) || text[from] == '=' || text[from] == '>' {
		return finding{}
	}
	quote := byte(0)
	if c := text[from]; c == '"' || c == '\'' || c == '`' {
		quote = c
		from++
	}
	to := from
	for to < len(text) && to-from < maxToken && !ends(text[to], quote) {
		to++
	}
	value := text[from:to]
	if quote == 0 {
		value = strings.TrimRight(value, ".,;:!?")
	}
	value = strings.TrimSuffix(value, `\`)
	if !secretValue(value) {
		return finding{}
	}
	return finding{"credential", from, from + len(value)}
}

func ends(c, quote byte) bool {
	if quote != 0 {
		return c == quote || c == '\n'
	}
	return c <= ' ' || strings.IndexByte("\"'`,;)}]>|&<", c) >= 0
}

// secretName reports whether the name before a separator is that of a secret.
func secretName(before string) bool {
	before = strings.TrimRight(before, " \t\"'`\\")
	if cut := strings.LastIndexAny(before, "\n,;({[\"'`="); cut >= 0 {
		before = before[cut+1:]
	}
	if before == "" {
		return false
	}
	lower := strings.ToLower(before)
	for _, n := range secretNames {
		if at := strings.LastIndex(lower, n); at >= 0 && len(lower)-at-len(n) <= 4 {
			return true
		}
	}
	return false
}

// secretValue is the gate: a value of at least six bytes with a digit or a
// symbol in it, which is neither a placeholder nor a path nor code.
func secretValue(v string) bool {
	if len(v) < 6 || placeholder(v) {
		return false
	}
	digit, symbol, letter := false, false, false
	for i := range len(v) {
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			letter = true
		case c == '_' || c == '-' || c == '.':
		case c == '(' || c == '{' || c == '[':
			return false
		case c == ' ':
			return false
		default:
			symbol = true
		}
	}
	if strings.HasPrefix(v, "/") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "~/") || strings.Contains(v, "://") {
		return false
	}
	if !digit && !symbol {
		return false
	}
	if isFileName(v) {
		return false
	}
	return letter || digit && len(v) >= 8
}

// isFileName reports whether a value is a file's name or code that names a field.
func isFileName(v string) bool {
	dot := strings.LastIndexByte(v, '.')
	if dot <= 0 || len(v)-dot > 6 {
		return false
	}
	for i := range len(v) {
		if !wordByte[v[i]] && v[i] != '.' && v[i] != '-' && v[i] != '/' {
			return false
		}
	}
	for _, c := range v[dot+1:] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// placeholder reports whether a value stands for one.
func placeholder(v string) bool {
	switch {
	case strings.HasPrefix(v, "$"), strings.HasPrefix(v, "<"), strings.HasPrefix(v, "{{"), strings.HasPrefix(v, "%"),
		strings.HasPrefix(v, "***"), strings.HasPrefix(v, "..."), strings.HasPrefix(v, "[redacted:"), strings.HasPrefix(v, "op://"),
		strings.HasPrefix(v, "vault:"), strings.HasPrefix(v, "ENC["), strings.HasPrefix(v, "xxxx"), strings.HasPrefix(v, "XXXX"):
		return true
	}
	return strings.Trim(v, "*x.") == ""
}

// credentials matches what stands between "://" and "@" in a URL.
func credentials(text string, i int) finding {
	from := i + len("://")
	const maxUser = 512
	colon := -1
	for at := from; at < len(text) && at-from < maxUser; at++ {
		switch c := text[at]; {
		case c == ':' && colon < 0:
			colon = at
		case c == '@':
			return userinfo(text, from, colon, at)
		case c <= ' ' || c == '/' || c == '"' || c == '\'' || c == '<' || c == '>' || c == '`' || c == '?' || c == '#':
			return finding{}
		}
	}
	return finding{}
}

func userinfo(text string, from, colon, at int) finding {
	if colon >= 0 {
		if v := text[colon+1 : at]; v != "" && !placeholder(v) {
			return finding{"url-credentials", colon + 1, at}
		}
		return finding{}
	}
	if v := text[from:at]; len(v) >= 20 && mixed(v) && !placeholder(v) {
		return finding{"url-credentials", from, at}
	}
	return finding{}
}
