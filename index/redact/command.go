package redact

import "strings"

// The family of credentials handed to a program on its command line. The args
// of a row say where they stand, one word per place:
//
//	-p    in the argument after -p, or after -p=
//	-p*   glued to it; -u+ glued to it, after a colon
//	-u:   after the colon of the argument after -u; so with % , and /
//	@2    in the second argument that is no option; @2/ after its slash
//	@-1   in the last such argument
//	-b;   in the argument after -b, as cookies
//
// Long options such as --password are names with values: assign.go.
var commandRules = []rule{
	{
		name: "sshpass", kind: "command-line", match: (*Scrubber).matchCommand, anchors: []string{"sshpass"}, args: "-p -p*",
		hit:  []string{"sshpass -p ‹word› ssh root@10.0.0.5", "sshpass -p '‹pw›' scp a b:", "sshpass -p‹pw› ssh h"},
		miss: []string{`sshpass -p "$SSHPASS" ssh h`, "sshpass -p flag of", "sshpass -e ssh h2h2h2"},
	},
	{
		name: "sql-client", kind: "command-line", match: (*Scrubber).matchCommand, args: "-p* -hp*",
		anchors: []string{"mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump", "7z a", "7z x", "7z e", "7z t", "7z u", "7za a", "7za x", "7zz a", "7zz x", "rar", "unrar"},
		hit:     []string{"mysql -uroot -p‹word› -h db1 app", "7z x a.7z -p‹pw›", "mysqldump -u a -p'‹pw›' app > a.sql"},
		miss:    []string{"mysql -u root -p", "mysql -uroot -h db1 app", "mysql -p app", "7z x a.7z", "mysql -p$PW123 app", "the mysql-port5 -p8"},
	},
	{
		name: "curl", kind: "command-line", match: (*Scrubber).matchCommand, args: "-u: -u+ --user: -U: --proxy-user: -b; --cookie;", anchors: []string{"curl", "wget"},
		hit:  []string{"curl -u admin:‹pw› https://x.net/api", "curl -uadmin:‹pw› https://x.net/api", "curl --user 'svc:‹pw›' https://x.net", `curl -b "session=‹an18›" https://x.net`},
		miss: []string{"curl -u bob https://x.net", `curl -u "$USER:$PASS" https://x.net`, `curl -H "Content-Type: application/json" https://x.net`, "curl -b jar.txt https://x.net"},
	},
	{
		name: "login", kind: "command-line", match: (*Scrubber).matchCommand, args: "-p",
		anchors: []string{"docker login", "podman login", "buildah login", "skopeo login", "oras login", "registry login", "az login", "oc login", "cf login", "mongo", "mongosh", "mongodump", "mongorestore", "snowsql", "cqlsh", "rdesktop", "psexec", "clickhouse-client", "twine upload", "ncftp", "ncftpput"},
		hit:     []string{"docker login -u ci -p ‹pw› registry.x.net", "mongosh -u app -p ‹pw› db1"},
		miss:    []string{"docker run -p 8080:80 nginx", "docker login -u ci registry.x.net"},
	},
	{
		name: "password-option", kind: "command-line", match: (*Scrubber).matchCommand, args: "-a -P -N -w -pw -upw -opw -k -A -X -U% -u, --body",
		anchors: []string{"redis-cli", "valkey-cli", "zip", "unzip", "sqlcmd", "bcp", "tsql", "ipmitool", "ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "plink", "pscp", "psftp", "openssl", "snmpwalk", "snmpget", "smbclient", "rpcclient", "lftp", "ssh-keygen", "pdftotext", "gh secret set"},
		hit: []string{
			"redis-cli -a ‹word› ping", "zip -P ‹word› a.zip b", "openssl enc -aes-256-cbc -k ‹pw› -in a", "ldapsearch -x -D cn=admin -w ‹pw› -b dc=x",
			"smbclient //h/s -U bob%‹pw›", "plink -pw ‹pw› host", "lftp -u bob,‹pw› sftp://h", "ssh-keygen -t ed25519 -N '‹pw›' -f k",
		},
		miss: []string{"redis-cli -a", "openssl rand -hex 32", "openssl rsa -in k -k $KEY", "unzip -P", "zip -r a.zip Dir2/x3", "ldapsearch -x -b dc=x1x1"},
	},
	{
		name: "login-argument", kind: "command-line", match: (*Scrubber).matchCommand, args: "@1",
		anchors: []string{"vault login", "cargo login", "wandb login", "snyk auth", "convertto-securestring"},
		hit:     []string{"vault login ‹an22›", "vault login -no-print ‹an22›", `$p = ConvertTo-SecureString "‹pw›" -AsPlainText`},
		miss:    []string{"vault login", "vault login -method=userpass username=bob1", "vault token lookup"},
	},
	{
		name: "user-and-password", kind: "command-line", match: (*Scrubber).matchCommand, args: "@2", anchors: []string{"add_user", "change_password", "wpa_passphrase", "net user", "config set --secret"},
		hit:  []string{"rabbitmqctl add_user bob ‹pw›", "wpa_passphrase home ‹pw›", "net user bob ‹pw› /add"},
		miss: []string{"rabbitmqctl add_user bob", "def change_password(user, password1)"},
	},
	{
		name: "htpasswd", kind: "command-line", match: (*Scrubber).matchCommand, args: "@-1", anchors: []string{"htpasswd -b", "htpasswd -nb", "htpasswd -cb", "htpasswd -bc", "htpasswd -bnb"},
		hit:  []string{"htpasswd -b users bob ‹word›", "htpasswd -nbB bob ‹pw›"},
		miss: []string{"htpasswd -c users bob1bob1"},
	},
	{
		name: "httpie", kind: "command-line", match: (*Scrubber).matchCommand, args: "@1:", anchors: []string{"http -a", "https -a"},
		hit:  []string{"http -a bob:‹pw› GET http://x"},
		miss: []string{"http -a bob1bob1 http://x", "http -a $AUTH http://x"},
	},
	{
		name: "freerdp", kind: "command-line", match: (*Scrubber).matchCommand, args: "/p:*", anchors: []string{"xfreerdp", "wfreerdp", "freerdp"},
		hit:  []string{"freerdp /u:x /p:‹pw› /v:h"},
		miss: []string{"freerdp /u:x1x1x1 /v:h"},
	},
	{
		name: "wifi", kind: "command-line", match: (*Scrubber).matchCommand, args: "password", anchors: []string{"nmcli"},
		hit:  []string{"nmcli dev wifi connect home password ‹word›"},
		miss: []string{"nmcli dev wifi connect home1home1", "nmcli -s password"},
	},
	{
		name: "net-use", kind: "command-line", match: (*Scrubber).matchCommand, args: "@3", anchors: []string{"net use"},
		hit:  []string{`net use Z: \\srv\s ‹word› /user:bob`},
		miss: []string{`net use Z: \\srv\share2`},
	},
	{
		name: "sqlplus", kind: "command-line", match: (*Scrubber).matchCommand, args: "@1/", anchors: []string{"sqlplus", "expdp", "impdp"},
		hit:  []string{"sqlplus scott/‹pw›@orcl"},
		miss: []string{"sqlplus / as sysdba1", "sqlplus scott@orcl12"},
	},
	{
		name: "sql-identified", kind: "command-line", match: (*Scrubber).matchIdentified, anchors: []string{"identified by", "identified by password", "identified with mysql_native_password by"},
		hit:  []string{"CREATE USER 'app'@'%' IDENTIFIED BY '‹pw›';", "create user y identified by ‹word›;"},
		miss: []string{"identified by the user", "a row identified by its key", "IDENTIFIED BY '$PASS1'", "the revision identified by rev12345."},
	},
	{
		name: "here-string", kind: "command-line", match: (*Scrubber).matchHere, anchors: []string{"-token <<<", "-stdin <<<", "sudo -s <<<"},
		hit:  []string{"gh auth login --with-token <<< ‹an21›", `docker login --password-stdin <<<"‹pw›"`},
		miss: []string{`gh auth login --with-token <<< "$TOKEN"`},
	},
	{
		name: "piped", kind: "command-line", match: (*Scrubber).matchPiped, anchors: []string{"--password-stdin", "--with-token", "--stdin", "sudo -s", "chpasswd"},
		hit:  []string{"echo ‹pw› | docker login -u ci --password-stdin", `printf '%s' "‹an40›" | gh auth login --with-token`, "echo bob:‹pw› | chpasswd"},
		miss: []string{`echo "$PASS" | docker login --password-stdin`, "--password-stdin", "cat token2.txt | gh auth login --with-token", "echo hello | xargs rm --stdin"},
	},
}

// commandMax bounds a command line, in bytes and in arguments.
const (
	commandMax  = 512
	commandArgs = 40
)

// argument is one word of a command line, without its quotes.
type argument struct{ lo, hi int }

// arguments splits the command line at i, to the end of the command. It reports
// false when that is farther away than it looks.
func (s *Scrubber) arguments(i int, to []argument) ([]argument, bool) {
	limit := i + commandMax
	for len(to) < cap(to) && i < limit {
		i = s.run(setSpace, i)
		if i >= len(s.text) || strings.IndexByte("\r\n|;&)", s.text[i]) >= 0 {
			return to, true
		}
		if strings.HasPrefix(s.text[i:], "\\\n") {
			i += 2 // the command goes on
			continue
		}
		if lo, hi, ok := s.quotedAt(i); ok {
			to, i = append(to, argument{lo, hi}), s.afterQuote(hi)
			continue
		}
		lo, hi := i, s.run(setArg, i)
		if hi == i {
			return to, true
		}
		if n := strings.Index(s.text[lo:min(hi, lo+commandMax)], `\n`); n >= 0 {
			return append(to, argument{lo, lo + n}), true // the end of a line in a string
		}
		i = hi
		if hi < len(s.text) && s.sets[s.text[hi]]&setBlank == 0 {
			if _, end, ok := s.quotedAt(hi); ok { // -p"..."
				hi, i = end, s.afterQuote(end)
			}
		}
		for i == hi && hi > lo+1 && strings.IndexByte(";),", s.text[hi-1]) >= 0 {
			hi--
			i = hi
		}
		to = append(to, argument{lo, hi})
	}
	return to, false
}

// afterQuote returns the place behind the quote that ends an argument at hi.
func (s *Scrubber) afterQuote(hi int) int {
	for hi < len(s.text) && s.text[hi] == '\\' {
		hi++
	}
	return min(hi+1, len(s.text))
}

// matchCommand marks the arguments of a program that its row names.
func (s *Scrubber) matchCommand(at, end int) {
	if at > 0 && (isWord(s.text[at-1]) || s.text[at-1] == '-') && !escaped(s.text, at-1) || end >= len(s.text) {
		return
	}
	end = s.upTo(setWord, end, 4) // options of the anchor, as in -nbB
	if end >= len(s.text) || s.sets[s.text[end]]&setSpace == 0 {
		return
	}
	if s.command.rule == s.rule && at < s.command.hi {
		return // an argument of the command before
	}
	var store [commandArgs]argument
	args, whole := s.arguments(end, store[:0])
	if len(args) > 0 {
		s.command = span{at, args[len(args)-1].hi, s.rule}
	}
	for spec := range strings.FieldsSeq(s.rules[s.rule].args) {
		s.steps += len(args)
		if spec[0] == '@' {
			s.positional(args, spec[1:], whole)
		} else {
			s.option(args, spec)
		}
	}
}

// option marks what an option gives.
func (s *Scrubber) option(args []argument, spec string) {
	kind := spec[len(spec)-1]
	if strings.IndexByte("*+:%,/;", kind) < 0 {
		kind = 0
	} else {
		spec = spec[:len(spec)-1]
	}
	for i, a := range args {
		text := s.text[a.lo:a.hi]
		switch {
		case kind == '*', kind == '+':
			if rest, ok := strings.CutPrefix(text, spec); ok && rest != "" {
				lo := a.lo + len(spec)
				for lo < a.hi && (s.text[lo] == '\'' || s.text[lo] == '"' || s.text[lo] == '=') {
					lo++
				}
				if kind == '+' {
					s.markGiven(lo, a.hi, ':')
				} else {
					s.markGiven(lo, a.hi, 0)
				}
			}
		case text == spec && i+1 < len(args):
			s.markGiven(args[i+1].lo, args[i+1].hi, kind)
		}
	}
}

// positional marks an argument by its number among those that are no options.
func (s *Scrubber) positional(args []argument, spec string, whole bool) {
	kind := byte(0)
	if last := spec[len(spec)-1]; !isDigit(last) {
		kind, spec = last, spec[:len(spec)-1]
	}
	n, last := 0, argument{}
	for _, a := range args {
		if s.text[a.lo] == '-' || a.lo == a.hi {
			continue
		}
		last = a
		if n++; spec[0] == byte('0'+n) {
			if text := s.text[a.lo:a.hi]; strings.IndexByte(text, '=') < 0 || kind != 0 {
				s.markGiven(a.lo, a.hi, kind)
			}
			return
		}
	}
	if spec == "-1" && n > 1 && whole {
		s.markGiven(last.lo, last.hi, kind)
	}
}

// markGiven marks an argument, or what stands in it after a mark.
func (s *Scrubber) markGiven(lo, hi int, after byte) {
	if after == ';' {
		s.markPairs(lo)
		return
	}
	v := s.text[lo:hi]
	if after != 0 {
		at := strings.IndexByte(v, after)
		if at < 0 {
			return
		}
		lo += at + 1
		v = v[at+1:]
		if after == '/' { // user/password@database
			if at := strings.LastIndexByte(v, '@'); at >= 0 {
				v = v[:at]
				hi = lo + at
			}
		}
	}
	if given(v) {
		s.mark(lo, hi)
	}
}

// given decides about a value in a place where a program takes a password:
// all but a word in lower case, which a sentence about the program may have.
func given(v string) bool {
	v = v[:min(len(v), profileMax)]
	if len(v) < 4 || placeholder(v) || v[0] == '-' {
		return false
	}
	p := profileOf(v)
	return p.blank == 0 && (p.digit > 0 || p.hard > 0 || p.upper > 0 && p.lower > 0) && !isPath(v, p)
}

// matchIdentified marks a password in SQL, where it is quoted or follows a user.
func (s *Scrubber) matchIdentified(at, end int) {
	before := s.text[s.back(setLine, at, 64):at]
	s.steps += len(before)
	if lo, hi, ok := s.quotedAt(s.run(setSpace, end)); ok {
		s.markGiven(lo, hi, 0)
	} else if containsFold(before, "user ") || containsFold(before, "grant ") {
		s.matchDirective(at, end)
	}
}

// matchHere marks a here-string that is fed to a login.
func (s *Scrubber) matchHere(_, end int) {
	var store [1]argument
	if args, _ := s.arguments(end, store[:0:1]); len(args) > 0 {
		s.markGiven(args[0].lo, args[0].hi, 0)
	}
}

// matchPiped marks what echo writes into a login, which stands before it.
func (s *Scrubber) matchPiped(at, _ int) {
	from := s.back(setLine, at, nearMax)
	bar := strings.LastIndexByte(s.text[from:at], '|')
	s.steps += at - from
	if bar < 0 {
		return
	}
	for _, word := range [...]string{"echo ", "printf "} {
		i := strings.LastIndex(s.text[from:from+bar], word)
		if i < 0 {
			continue
		}
		var store [commandArgs]argument
		args, _ := s.arguments(from+i+len(word), store[:0])
		if len(args) == 0 {
			return
		}
		a := args[len(args)-1]
		if v := s.text[a.lo:a.hi]; strings.IndexByte(v, ':') > 0 && profileOf(v[:strings.IndexByte(v, ':')]).hard == 0 {
			s.markGiven(a.lo, a.hi, ':')
		} else {
			s.markGiven(a.lo, a.hi, 0)
		}
		return
	}
}
