package redact_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random texts, 0 for a new one")

// newRand returns a source that a failing run can be replayed with.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// split cuts a template into what stays and what is to be filled in: the odd
// parts stood between ‹ and ›.
func split(template string) []string {
	var parts []string
	for {
		before, rest, ok := strings.Cut(template, "‹")
		parts = append(parts, before)
		if !ok {
			return parts
		}
		hole, after, _ := strings.Cut(rest, "›")
		parts, template = append(parts, hole), after
	}
}

// fill returns a text for a template.
func fill(rng *rand.Rand, template string) string {
	parts := split(template)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = secret(rng, parts[i])
	}
	return strings.Join(parts, "")
}

// secret makes a value: a special one, a shape, or the hole of one.
func secret(rng *rand.Rand, spec string) string {
	if v := special(rng, spec); v != "" {
		return v
	}
	if !strings.Contains(spec, "{") {
		return hole(rng, spec)
	}
	var b strings.Builder
	for spec != "" {
		before, rest, _ := strings.Cut(spec, "{")
		b.WriteString(before)
		inside, after, ok := strings.Cut(rest, "}")
		if ok && strings.ContainsAny(inside, digits) {
			b.WriteString(hole(rng, inside))
		} else if ok {
			b.WriteString("{" + inside + "}")
		}
		spec = after
	}
	return b.String()
}

const (
	digits  = "0123456789"
	lowers  = "abcdefghijklmnopqrstuvwxyz"
	uppers  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = lowers + uppers
)

var alphabets = map[string]string{
	"d": digits, "h": digits + "abcdef", "x": digits + "abcdefABCDEF", "u": uppers + digits, "l": lowers + digits, "an": letters + digits,
	"w": letters + digits + "_", "t": letters + digits + "_-", "o": letters + digits + "_-", "b": letters + digits + "+/",
}

// hole fills {an36}, {an36-40} or {an36+}. Of every class that the set has the
// value has two members, if it is long enough, as nearly all random values do:
// a rule may miss the others.
func hole(rng *rand.Rand, spec string) string {
	at := strings.IndexAny(spec, digits)
	alphabet := alphabets[spec[:at]]
	low, high, _ := strings.Cut(strings.TrimSuffix(spec[at:], "+"), "-")
	n, err := strconv.Atoi(low)
	if err != nil || alphabet == "" {
		panic(fmt.Sprintf("no such hole: %q", spec))
	}
	if m, err := strconv.Atoi(high); err == nil {
		n += rng.IntN(m - n + 1)
	} else if strings.HasSuffix(spec, "+") {
		n += rng.IntN(8)
	}
	v := make([]byte, n)
	for range 1000 {
		for i := range v {
			v[i] = alphabet[rng.IntN(len(alphabet))]
		}
		if n < 6 || typical(string(v), alphabet) {
			return string(v)
		}
	}
	panic(fmt.Sprintf("no value for %q", spec))
}

func typical(v, alphabet string) bool {
	for _, class := range []string{digits, lowers, uppers} {
		has := 0
		for _, c := range v {
			has += strings.Count(class, string(c))
		}
		if (has < 2 || has < 3 && len(v) >= 16) && strings.ContainsAny(alphabet, class) {
			return false
		}
	}
	if low := strings.ToLower(v); strings.Contains(low, "xxxx") || strings.Contains(low, "your") {
		return false
	}
	turns, spelled, distinct := 0, 0, 0
	for run := range strings.FieldsFuncSeq(v, func(r rune) bool { return !strings.ContainsRune(lowers, r) }) {
		if len(run) > 3 {
			spelled += len(run)
		}
	}
	for i := range len(v) {
		if i > 0 && classOf(v[i]) != classOf(v[i-1]) {
			turns++
		}
		if strings.IndexByte(v[:i], v[i]) < 0 {
			distinct++
		}
	}
	mixed := len(v) >= 16 && len(alphabet) >= len(alphabets["an"])
	return isAlnum(v[0]) && isAlnum(v[len(v)-1]) && (!mixed || turns*9 >= len(v)*4 && spelled*10 <= 3*len(v) && distinct*10 >= 7*min(len(v), 30))
}

func classOf(c byte) int {
	for i, class := range []string{digits, lowers, uppers} {
		if strings.IndexByte(class, c) >= 0 {
			return i
		}
	}
	return -1
}

func isAlnum(c byte) bool { return strings.IndexByte(letters+digits, c) >= 0 }

// special makes a value that is more than random bytes.
func special(rng *rand.Rand, spec string) string {
	kind, form, _ := strings.Cut(spec, ":")
	switch kind {
	case "word": // as people make passwords of words
		words := []string{"w4lnut", "m4rble", "f4lcon", "c0pper", "h4rbor", "v3lvet"}
		return words[rng.IntN(len(words))] + hole(rng, "d3")
	case "pw":
		words := []string{"Walnut", "Marble", "Falcon", "Copper", "Harbor", "Velvet"}
		return words[rng.IntN(6)] + "-_"[rng.IntN(2):][:1] + hole(rng, "d2") + words[rng.IntN(6)] + "!#*?"[rng.IntN(4):][:1]
	case "uuid":
		return secret(rng, "{h8}-{h4}-4{h3}-a{h3}-{h12}")
	case "lines":
		return hole(rng, "b64") + "\n" + hole(rng, "b64") + "\n" + hole(rng, "b64")
	case "cert":
		return armor(rng, "CERTIFICATE", "\n")
	case "pub":
		return armor(rng, "PUBLIC KEY", `\n`)
	case "pgp":
		return armor(rng, "PGP PRIVATE KEY BLOCK", "\n", "Version: GnuPG v2", "")
	case "pem":
		labels := []string{"RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"}
		return pem(rng, labels[rng.IntN(len(labels))], form)
	}
	return ""
}

// pem makes a private key as it meets the scrubber in transcripts.
func pem(rng *rand.Rand, label, form string) string {
	switch form {
	case "json":
		return armor(rng, label, `\n`)
	case "json-json":
		return armor(rng, label, `\\n`)
	case "spaces":
		return armor(rng, label, " ")
	case "crlf":
		return armor(rng, label, "\r\n")
	case "indented":
		return armor(rng, label, "\n    ")
	case "diff":
		return armor(rng, label, "\n-")
	case "quoted":
		return armor(rng, label, "\\n\" +\n  \"")
	case "headers":
		return armor(rng, label, "\n", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,"+hole(rng, "u32"), "")
	case "cut":
		whole, _, _ := strings.Cut(armor(rng, label, "\n"), "\n-----END")
		return whole
	case "numbered":
		var b strings.Builder
		for i, line := range strings.Split(armor(rng, label, "\n"), "\n") {
			if i > 0 {
				fmt.Fprintf(&b, "\n%6d\t", i+1)
			}
			b.WriteString(line)
		}
		return b.String()
	}
	return armor(rng, label, "\n")
}

// armor makes a block of random lines, with what stands between them.
func armor(rng *rand.Rand, label, between string, headers ...string) string {
	lines := append([]string{"-----BEGIN " + label + "-----"}, headers...)
	for range 4 + rng.IntN(20) {
		lines = append(lines, hole(rng, "b64"))
	}
	lines = append(lines, hole(rng, "b22")+"==", "-----END "+label+"-----")
	return strings.Join(lines, between)
}
