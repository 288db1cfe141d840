package redact

// The family of password hashes as shadow, htpasswd and frameworks store them.
var hashRules = []rule{{
	name: "password-hash", kind: "password-hash", match: (*Scrubber).matchHash,
	anchors: []string{
		"$2a$", "$2b$", "$2y$", "$apr1$", "$1$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$argon2", "$scrypt$", "$sha1$", "$pbkdf2", "$p$b", "$s$d",
		"pbkdf2_sha256$", "pbkdf2_sha1$", "pbkdf2:sha", "scrypt:32768:", "bcrypt_sha256$", "{ssha}", "{sha}", "{ssha512}", "{crypt}", "{smd5}",
	},
	hit: []string{
		"svc:‹$2y$10${an53}›", "root:‹$6${an8}${an86}›:19000:0:99999:7:::", "bob:‹{SHA}{b27}=›", "‹$argon2id$v=19$m=65536,t=3,p=4${an22}${an43}›",
		"x = '‹pbkdf2_sha256$600000${an22}${b43}=›'", "alice:‹$apr1${an8}${an22}›",
	},
	miss: []string{"echo $1$2", "cost $5$ or $6$", "$2a$ is bcrypt", "awk '{print $1$2$3}'", "{SHA} is weak", "a$2b$c"},
}}

const (
	hashMax   = 512 // bytes of a hash with its parameters
	hashParts = 6
)

// matchHash marks a hash from its scheme to its end. What counts is its last
// part: parameters are for everybody.
func (s *Scrubber) matchHash(at, end int) {
	hi, last := end, end
	for parts := 0; hi < len(s.text); hi++ {
		c := s.text[hi]
		if c == '$' || c == ':' && last == end {
			if parts++; parts > hashParts {
				return
			}
			last = hi + 1
		} else if s.sets[c]&setOpaque == 0 && c != ',' && c != '@' || hi > at+hashMax {
			break
		}
	}
	s.steps += hi - at
	if body := s.text[last:hi]; hi > at+hashMax || len(body) < 20 || written(body) || profileOf(body).turns*4 < len(body) {
		return
	}
	s.mark(at, hi)
}
