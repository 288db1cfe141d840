package redact

import "strings"

// The family of secrets that words of other scripts and languages name, in an
// assignment or in a sentence. Where a script has no case, no spaces, or both,
// the value is the first word of ASCII that can be one.
var foreignRules = []rule{
	{
		name: "foreign-script", kind: "password", match: (*Scrubber).matchForeign,
		anchors: []string{
			"ароль", "АРОЛЬ", "ароля", "аролем", "окен", "екретный ключ", "екрет", "лавіша доступу", "密码", "密碼", "口令", "密钥", "密鑰", "令牌", "暗証番号", "パスワード", "パスコード", "トークン",
			"シークレット", "비밀번호", "암호", "토큰", "κωδικός", "סיסמה", "סיסמא", "كلمة المرور", "كلمة السر", "पासवर्ड", "รหัสผ่าน", "парола", "лозинка",
		},
		hit: []string{
			"пароль: ‹pw›\nOK", "Пароль от базы — ‹pw›\nOK", "токен = ‹pw›", "секретный ключ: ‹pw›", "Пароль администратора ‹{u1}{l6}_32_{u1}{l4}›, поменяйте", "пароль от стенда теперь ‹word›",
			"密码：‹pw›\nOK", "数据库密码是 ‹pw›\n", "管理员密码是‹pw›，请尽快修改", "パスワードは ‹pw› です", "管理者のパスワードは「‹word›」です", "비밀번호: ‹word›", "пароль: «‹pw›»",
		},
		miss: []string{
			"пароль неверный", "пароль совпадает со staging", "токен истёк, обновите его", "ключ к пониманию — тесты", "密码错误，请重试", "令牌已过期", "パスワードが間違っています",
			"비밀번호가 틀렸습니다", "секрет успеха: терпение", "пароль: ${DB_PASSWORD1}", "пароль пользователя user123 неверен", "密码至少8位", "токен в config/app2.yml",
		},
	},
	{
		name: "foreign-key", kind: "secret", match: (*Scrubber).matchForeignKey,
		anchors: []string{"люч", "ЛЮЧ", "одовое слово", "キー", "鍵", "키", "klucz", "schlüssel", "clé"},
		hit:     []string{"ключ доступа: ‹an24›", "API-ключ: ‹an24›", "APIキー：‹an32›", "кодовое слово: ‹pw›", "秘密鍵：‹an32›"},
		miss:    []string{"ключ к пониманию — тесты", "ключ: id_12345", "キー: user_name2", "der Schlüssel zum Erfolg2", "включили HTTP2 и TLS13 для api.x.net", "ключ кэша: ‹h40›"},
	},
	{
		name: "foreign-word", kind: "password", match: (*Scrubber).matchForeignWord,
		anchors: []string{
			"contraseña", "contrasena", "clave", "passwort", "kennwort", "mot de passe", "mot_de_passe", "geheimnis", "senha", "palavra-passe", "hasło", "haslo", "parola", "wachtwoord", "lösenord", "heslo", "salasana",
			"şifre", "sifre", "jelszó", "mật khẩu", "kata sandi", "adgangskode", "lozinka", "geslo", "parool", "slaptažodis",
		},
		hit: []string{
			"contraseña: ‹word›\nOK", "clave = ‹word›", "Passwort: ‹pw›", "mot de passe : ‹word›", "hasło: ‹word›", "la contraseña del servidor es ‹pw›", `senha="‹word›"`, "parola: ‹pw›",
		},
		miss: []string{"la contraseña es incorrecta", "das Passwort ist falsch", "le mot de passe est incorrect", "a senha está errada", "clave: valor", "enclave = region12", "senha: ${SENHA1}", "Passwort: geheim"},
	},
}

// foreignMax bounds how far the value stands from the word, and foreignWords
// how many words of ASCII may stand between.
const (
	foreignMax   = 96
	foreignWords = 3
)

// matchForeign marks the first word of ASCII after the anchor that can be a
// secret, on the same line.
func (s *Scrubber) matchForeign(_, end int) { s.foreignValue(end, s.markTold) }

// matchForeignKey does so where the anchor has other meanings, too: the word
// must look like a secret by itself.
func (s *Scrubber) matchForeignKey(_, end int) {
	s.foreignValue(end, func(lo, hi int, _ bool) bool { return s.markSharp(lo, hi) })
}

// foreignValue offers the words of ASCII that follow an anchor to mark, until
// it takes one.
func (s *Scrubber) foreignValue(end int, mark func(lo, hi int, sure bool) bool) {
	i, limit, sure := end, min(end+foreignMax, len(s.text)), false
	for n := 0; n < foreignWords && i < limit; {
		c := s.text[i]
		switch {
		case c == '\n' || c == '\r' || c == '.' || c == ';':
			return
		case c >= 0x80:
			hi := s.run(setForeign, i)
			for _, w := range givers {
				sure = sure || strings.HasSuffix(s.text[i:hi], w)
			}
			i = hi
			continue
		case s.sets[c]&setBare == 0 || c == '-' || c == ':' || c == '=':
			sure = sure || c == ':' || c == '='
			i++
			continue
		}
		hi := s.upTo(setPlain, i, toldMax+1)
		s.steps += 2 * (hi - i)
		if mark(i, hi, sure) {
			return
		}
		i = hi
		n++
	}
}

// givers end what stands between the word and its value.
var givers = []string{"：", "＝", "是", "为", "為", "は", "「", "«", "—", "–"}

// matchForeignWord marks the value of a word that is written with the letters
// of this alphabet, or some more.
func (s *Scrubber) matchForeignWord(at, end int) {
	if at > 0 && (isWord(s.text[at-1]) || s.text[at-1] >= 0x80) && !escaped(s.text, at-1) || s.inWord(end) {
		return
	}
	if v, ok := s.valueOf(name{lo: at, hi: end}); ok && v.sep != sepBlank {
		if s.accept(name{lo: at, hi: end, strength: word}, v) {
			s.mark(v.lo, v.hi)
		}
		return
	}
	s.matchTold(at, end)
}
