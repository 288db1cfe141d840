package sshlink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shape is how a keyword's arguments are read.
type shape int

const (
	single shape = iota + 1 // one argument
	words                   // several, as one value
	adding                  // one argument, lines add up
	raw                     // the rest of the line
	quiet                   // has no bearing on an exchange
)

// keywords are those of ssh_config that sshlink knows. One that is not here
// becomes a warning.
var keywords = map[string]shape{
	"hostname": single, "port": single, "user": single, "addressfamily": single,
	"identitiesonly": single, "identityagent": single, "identityfile": adding,
	"hostkeyalias": single, "stricthostkeychecking": single,
	"userknownhostsfile": words, "globalknownhostsfile": words,
	"connecttimeout": single, "serveraliveinterval": single, "serveralivecountmax": single,
	"proxyjump": raw, "proxycommand": raw,
}

func init() {
	for name := range strings.FieldsSeq(`addkeystoagent batchmode checkhostip clearallforwardings compression
		connectionattempts controlmaster controlpath controlpersist dynamicforward enableescapecommandline
		enablesshkeysign escapechar exitonforwardfailure fingerprinthash forkafterauthentication forwardagent
		forwardx11 forwardx11timeout forwardx11trusted gatewayports gssapiauthentication gssapidelegatecredentials
		gssapikeyexchange gssapirenewalforcesrekey gssapitrustdns gssapiclientidentity gssapiserveridentity
		gssapikexalgorithms hashknownhosts hostbasedauthentication hostbasedacceptedalgorithms ignoreunknown
		ipqos kbdinteractiveauthentication kbdinteractivedevices localcommand localforward loglevel logverbose
		nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming passwordauthentication
		permitlocalcommand permitremoteopen rekeylimit remotecommand remoteforward requesttty sendenv setenv
		sessiontype stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility tcpkeepalive tunnel
		tunneldevice updatehostkeys usekeychain verifyhostkeydns visualhostkey xauthlocation warnweakcrypto
		challengeresponseauthentication useroaming protocol`) {
		keywords[name] = quiet
	}
}

// harmless are values of keywords without support that ask for nothing.
var harmless = map[string]string{
	"canonicalizehostname": "no", "pubkeyauthentication": "yes", "proxyusefdpass": "no",
	"knownhostscommand": "none", "pkcs11provider": "none", "certificatefile": "none", "revokedhostkeys": "none", "tag": "",
}

// set obeys a keyword of a block that matches.
func (e *evaluation) set(keyword, rest string) error {
	how := keywords[keyword]
	switch how {
	case quiet:
		return nil
	case raw:
		return e.setProxy(keyword, rest)
	}
	args, err := splitArgs(rest)
	if err != nil {
		return err
	}
	if how == 0 {
		if value, ok := harmless[keyword]; !ok || !strings.EqualFold(strings.Join(args, " "), value) {
			e.config.warnings[keyword] = true
		}
		return nil
	}
	if len(args) == 0 || args[0] == "" {
		return errors.New("no value")
	}
	if how != words && len(args) > 1 {
		return fmt.Errorf("%q follows the value", args[1])
	}
	return e.store(keyword, how, args)
}

// store keeps a value that is the first, or one that adds up.
func (e *evaluation) store(keyword string, how shape, args []string) error {
	if value, err := checkValue(keyword, args[0]); err != nil {
		return err
	} else if how == single {
		args = []string{value}
	}
	have := e.config.values[keyword]
	switch {
	case how == adding && !slices.Contains(have, args[0]):
		e.config.values[keyword] = append(have, args[0])
	case len(have) == 0:
		e.config.values[keyword] = args
	}
	return nil
}

// setProxy keeps the first of ProxyJump and ProxyCommand.
func (e *evaluation) setProxy(keyword, rest string) error {
	if rest == "" {
		return errors.New("no value")
	}
	if len(e.config.values["proxyjump"])+len(e.config.values["proxycommand"]) > 0 {
		return nil
	}
	if keyword == "proxyjump" {
		args, err := splitArgs(rest)
		if err != nil {
			return err
		}
		if len(args) != 1 {
			return errors.New("needs one value")
		}
		rest = args[0]
	}
	e.config.values[keyword] = []string{rest}
	return nil
}

// checkValue returns a value in the form that the rest of the package reads.
func checkValue(keyword, value string) (string, error) {
	lower := strings.ToLower(value)
	switch keyword {
	case "identitiesonly":
		return oneOf(lower, "yes", "true", "no", "false")
	case "stricthostkeychecking":
		return oneOf(lower, "yes", "true", "no", "false", "no", "off", "ask", "", "accept-new", "")
	case "addressfamily":
		return oneOf(lower, "any", "", "inet", "", "inet6", "")
	case "port":
		_, err := parsePort(value)
		return value, err
	case "connecttimeout", "serveraliveinterval":
		_, err := parseSeconds(value)
		return value, err
	case "serveralivecountmax":
		_, err := parseCount(value)
		return value, err
	}
	return value, nil
}

// oneOf looks a value up in pairs of a name and another spelling of it.
func oneOf(value string, pairs ...string) (string, error) {
	for i := 0; i < len(pairs); i += 2 {
		if value == pairs[i] || value != "" && value == pairs[i+1] {
			return pairs[i], nil
		}
	}
	return "", fmt.Errorf("%q is no value of it", value)
}
