package redact

import "strings"

// The family of values that have a name: NAME=value, "name": "value",
// name: value in YAML, --name=value, <name>value</name> and their kin. The
// name decides how much the value must look like a secret.
var assignRules = []rule{
	{
		name: "password-assignment", kind: "password", match: (*Scrubber).matchAssigned,
		anchors: []string{"pass", "pwd", "_pw", "-pw", "pw=", "pw:", `pw"`},
		hit: []string{
			"DB_PASSWORD=‹pw›\nDB_HOST=db1", "password: ‹word›", `"dbPassword": "‹pw›", "user": "svc"`, "set DB_PASS=‹word›",
			"<password>‹pw›</password>", `pwd="‹word›"`, "ADMIN_PW=‹word›", "Server=db1;User Id=sa;Password=‹pw›;Encrypt=true",
			`variable "db_password" {` + "\n  default = \"‹pw›\"\n}", `define('DB_PASSWORD', '‹word›');`, "login?user=bob&password=‹an20›&next=/",
			`ALTER USER app WITH PASSWORD '‹pw›';`, `password: str = "‹pw›"`, "app --password ‹pw› run", "aws_pass :\n    ‹an32›\nregion = x",
			`<add key="Password" value="‹pw›"/>`, `os.environ["DB_PASSWORD"] = "‹pw›"`, `{\"password\": \"‹pw›\"}`, "requirepass ‹word›", "PASSWORD=‹d8›",
			`export PASS=‹an12›\nexport B=1`, "password = b'‹pw›'", `setPassword("‹word›")`,
			"- name: DB_PASSWORD\n  value: \"‹pw›\"", `{"name":"DB_PASSWORD","value":"‹pw›"}`, `<entry key="db.password">‹pw›</entry>`, "password -> ‹pw›", "/login?next=%2Fx%3Fpassword%3D‹an20›%26a",
			`SECRET_PASSWORD = os.getenv("X", "‹an20›")`, `password: process.env.PW || '‹pw›'`,
		},
		miss: []string{
			"password: changed", "password: string", `password: ""`, "password=********", "password_attempts=3 locked=false", "--- PASS: TestV2Store3 (0.01s)",
			`"password": {"type": "string", "minLength": 8}`, "if password != confirmPassword2 {", "password = request.form[\"password\"]",
			"passwordHashIterations: 310000", "password_file=/run/secrets/db_password", "PWD=/home/dev/app2", "password: str = Field(min_length=8)",
			"password VARCHAR(255) NOT NULL", "password=$PASSWORD2", "bypass=feature22", "password: <your-password>", "pass: 12", "password: ENC[AES256_GCM,x]",
			"password = hash2.Sum512(input)", "password: app-config-v2", "password:\n  minLength: 8\n", "password: *default_pw",
			"db:\n  password:\n  host: db12345\n", "password: |\n",
			"- name: DB_PASSWORD\n  valueFrom:\n    key: a1b2c3", `password = form.get("password", "")`, "password >= minimum12", `<label for="password">Password</label>`,
		},
	},
	{
		name: "token-assignment", kind: "token", match: (*Scrubber).matchAssigned,
		anchors: []string{"token"},
		hit: []string{
			"API_TOKEN=‹an24›", `const token = "‹an18›";`, "access_token=‹an24›&expires_in=3600", "X-Vault-Token: ‹an28›", "PRIVATE-TOKEN: ‹t28›",
			"//npm.corp.example/:_authToken=‹an24›", `"refreshToken" : '‹t40›'`, "npm config set //npm.corp.example/:_authToken ‹an24›", "CONSUL_HTTP_TOKEN=‹uuid›",
			"./deploy --token ‹an24› --env prod", "$env:API_TOKEN = \"‹an20›\"",
		},
		miss: []string{
			"token: null", "max_tokens=40960", `"token_type":"bearer2"`, "token = strings.TrimPrefix(h, x)", "token: z.string().min(20)", "tokens: 1234567",
			"--color-token-primary-500: #0ea5e9;", "next_page_token: ‹an30›", "self.token = self.client.fetch_token()", "token: ${{ secrets.NPM_TOKEN }}",
			"token bucket size: 500 per minute", "sync ssh box --token-file t12345", `{"go/token", "x/y2z3"},`, "early_token *tls13.EarlySecret", "PrivateToken: testEd25519Private,", "AUTH_TOKEN = 0x4b45a1", "auth.go:42: token parse error: unexpected EOF", "token: sha256",
		},
	},
	{
		name: "secret-assignment", kind: "secret", match: (*Scrubber).matchAssigned,
		anchors: []string{"secret"},
		hit: []string{
			"'client_secret': '‹an20›',", "signingSecret=‹an22›", "LINKEDIN_CLIENT_SECRET=‹h16›", "secret_key_base: ‹an40›", "Generated secret:\n\n    ‹t32›\n\nKeep it safe.",
			`webhook_secret="‹an22›"`,
		},
		miss: []string{
			"secret: ./config/secrets/app.yaml", "secretKeyRef:\n  name: db-credentials-22\n", "secret: !Ref DbSecret2", "secret: Buffer", `secret "db-credentials" created`,
			"secret=os.environ.get(\"SECRET\")", "secret: vault:kv/app#x1",
		},
	},
	{
		name: "key-assignment", kind: "api-key", match: (*Scrubber).matchAssigned,
		anchors: []string{"key"},
		hit: []string{
			`api_key = "‹an18›"`, "HEROKU_API_KEY=‹uuid›", "X-Api-Key: ‹an32›", `"privateKey": "‹an22›"`, "ALGOLIA_ADMIN_KEY=‹h32›", "PresharedKey = ‹{b43}=›\nEndpoint = vpn.x.net:51820",
			"AccountName=logs01;AccountKey=‹{b86}==›;EndpointSuffix=core.windows.net", "app --api-key=‹an24› run", "key: ‹t48›", "Ocp-Apim-Subscription-Key: ‹h32›",
		},
		miss: []string{
			"key: ‹h40›", "cache-key: ‹an40›", "PublicKey = ‹b43›=", "key: value", "apiKey: process.env.API_KEY", "SharedAccessKeyName=Root22", "key = path/to/private/key.pem",
			"AWS_ACCESS_KEY_ID=none22", "key: ‹uuid›", "api_key: YOUR_API_KEY_1", "primary key: 1234567", "<Key>Escape2</Key>", "KeyError: 'refresh_token2'",
		},
	},
	{
		name: "named-opaque", kind: "credential", match: (*Scrubber).matchAssigned,
		anchors: []string{"auth", "cred", "salt", "seed", "hmac", "pepper", "_pat=", "_pat:", `_pat"`, "psk", "jwt", "otp", "mnemonic", "nonce", "license", "sid="},
		hit: []string{
			`{"reg.x.net": {"auth": "‹an32›"}}`, "salt=‹t48›", `seed = "‹t40›"`, "credentials => ‹t44›", `"hmac": "‹an44›"`, "AZURE_DEVOPS_PAT=‹l52›", "auth ‹t44›",
		},
		miss: []string{
			"auth: none", "auth: authMiddleware.requireAdmin", `credentials: "include"`, "authorization: Optional[str] = Header(None)", "seed=‹h40›", "salt: sha512-‹b86›==",
			"author=‹an30›", "auth ok for user ‹an10›",
		},
	},
}

// matchAssigned marks the value of the name around an anchor.
func (s *Scrubber) matchAssigned(at, end int) {
	n := s.nameAt(at, end)
	if n.strength == none || n.lo > 0 && s.text[n.lo-1] == '/' {
		return // a part of a path or a URL is no name
	}
	v, ok := s.valueOf(n)
	if ok && !v.quoted && n.strength > weak && (v.sep == sepEqual || v.sep == sepColon) {
		v = s.fallback(v)
	}
	if ok && s.accept(n, v) {
		s.mark(v.lo, v.hi)
	}
}

// fallback returns the literal that an expression ends in, as in
// getenv("NAME", "literal") and env.NAME || "literal", or the value itself.
func (s *Scrubber) fallback(v value) value {
	end := s.upTo(setLine, v.hi, fallbackMax)
	rest := s.text[v.hi:end]
	for _, before := range [...]string{`", `, "', ", "|| ", "?? ", " or "} {
		at := strings.LastIndex(rest, before)
		if at < 0 {
			continue
		}
		lo, hi, ok := s.quotedAt(v.hi + at + len(before))
		if ok && hi-lo >= 8 && hi <= end {
			return value{lo: lo, hi: hi, quoted: true, sep: v.sep}
		}
	}
	return v
}

// fallbackMax bounds an expression.
const fallbackMax = 80

// accept decides whether the value of a name is a secret.
func (s *Scrubber) accept(n name, v value) bool {
	text := s.text[v.lo:v.hi]
	s.steps += 2 * min(len(text), profileMax)
	spaced := v.sep == sepBlank && n.dashes == 0
	switch {
	case text == "":
		return false
	case !v.quoted && v.hi < len(s.text) && (s.text[v.hi] == '(' || s.text[v.hi] == '['):
		return false // a call or an index
	case n.strength == weak && spaced && len(text) < 28:
		return false
	case n.strength == weak, v.apart:
		return unnamed(text)
	case v.sep == sepColon && n.dashes == 2:
		return false // a property of CSS
	case v.sep == sepColon && !v.quoted && s.text[n.lo:n.hi] == "PASS":
		return false // a test that passed
	case spaced && !v.quoted:
		return n.parts > 1 && (n.strength == word || len(text) >= 16) && named(text, false, false)
	}
	return named(text, v.quoted, n.strength == word)
}
