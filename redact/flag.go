package redact

import (
	"regexp"
	"strings"
)

// longFlag matches a flag whose value is a secret, in a command line or in a list of arguments.
var longFlag = regexp.MustCompile(`(?i)(?:^|[\s"'\[(,=])--?(?:[a-z0-9]+[_-])*` +
	`(password|passwd|passphrase|pass|pwd|secret|token|(?:api|access|account|secret|private|encryption)[_-]?key)` +
	`(=|[ \t]{1,4}|["'],[ \t\r\n]{0,80})`)

// A tool is a program with a short flag whose value is a secret.
type tool struct {
	flag   string
	apart  bool // the value may be the next argument
	joined bool // the value may be a part of the flag
	user   byte // what is between a user and the password, if the value has both
}

// tools are known by their names: what -p means differs from program to program.
var tools = map[string]tool{}

func init() {
	for names, t := range map[string]tool{
		"mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlslap mysqlsh mariadb mariadb-dump " +
			"mariadb-admin mariadb-backup mariabackup xtrabackup 7z 7za": {flag: "-p", joined: true},
		"sshpass mongo mongosh mongodump mongorestore mongoexport mongoimport": {flag: "-p", joined: true, apart: true},
		"login":     {flag: "-p", apart: true}, // docker login, helm registry login and the like
		"redis-cli": {flag: "-a", apart: true},
		"ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami": {flag: "-w", joined: true, apart: true},
		"zip unzip sqlcmd bcp":                                {flag: "-P", joined: true, apart: true},
		"curl":                                                {flag: "-u", joined: true, apart: true, user: ':'},
		"smbclient":                                           {flag: "-U", joined: true, apart: true, user: '%'},
	} {
		for name := range strings.FieldsSeq(names) {
			tools[name] = t
		}
	}
}

// inLongFlags finds secrets after flags with a name.
func inLongFlags(text string) []span {
	var found []span
	for _, at := range longFlag.FindAllStringSubmatchIndex(text, -1) {
		if s, ok := flagValue(text, text[at[2]:at[3]], text[at[4]:at[5]], at[1]); ok {
			found = append(found, s)
		}
	}
	return found
}

// inCommands finds secrets after the short flags of known programs.
func inCommands(text string) []span {
	var found []span
	for start := 0; start < len(text); {
		end := start + endOf(text[start:], isLineEnd)
		found = append(found, inCommand(text, start, end)...)
		start = end + 1
	}
	return found
}

// prose are words that follow the name of a flag in a sentence.
var prose = regexp.MustCompile(`(?i)^(?:flag|option|argument|value|is|are|was|to|and|or|for|from|must|may|can|cannot|` +
	`not|with|without|in|on|if|when|the|a|an|as|has|needs|requires|instead|takes|stdin|will|should)[.,;:)]*$`)

// flagValue returns the value of a flag with a name.
func flagValue(text, word, sign string, at int) (span, bool) {
	start, end, quoted := valueAt(text, at, func(c byte) bool { return isSpace(c) || isQuote(c) })
	if strings.ContainsAny(sign, `"'`) { // a list of arguments: the quote of the flag is closed
		quoted = true
	}
	value := text[start:end]
	if !quoted {
		value = withoutPunctuation(value)
	}
	if sign != "=" && !quoted && (strings.HasPrefix(value, "-") || prose.MatchString(value)) {
		return span{}, false
	}
	return span{start: start, end: start + len(value), name: "password-flag"}, isFlagValue(value, word)
}

// isFlagValue reports whether a value is a secret, which after a password's flag may be a word.
func isFlagValue(value, word string) bool {
	if len(value) < minSecret || isPlaceholder(value) || isPath(value) {
		return false
	}
	return looksSecret(value) || strings.HasPrefix(strings.ToLower(word), "p") && len(value) > minSecret
}

// inCommand finds the values of short flags in a line. A program counts from its name on, until another is named.
func inCommand(text string, start, end int) []span {
	var found []span
	var current tool
	for at := start; at < end; {
		at += endOf(text[at:end], func(c byte) bool { return !isSpace(c) })
		stop := at + argument(text[at:end])
		word := text[at:stop]
		if t, known := tools[programName(word)]; known {
			current = t
		} else if current.flag != "" && strings.HasPrefix(word, current.flag) {
			if s, ok := current.value(text, at+len(current.flag), stop, end); ok {
				found = append(found, s)
				stop = max(stop, s.end)
			}
		} else if strings.Trim(word, "|;&") == "" {
			current = tool{}
		}
		at = stop
	}
	return found
}

// argument returns the length of the first argument of a command line, with what is in quotes.
func argument(line string) int {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case isSpace(c):
			return i
		case isQuote(c) && i > 0: // a quote that opens within the argument, as in -p'two words'
			if end := strings.IndexByte(line[i+1:], c); end >= 0 {
				i += end + 1
			}
		}
	}
	return len(line)
}

// programName returns the name of a program without the folder of programs that it is in.
func programName(word string) string {
	word = strings.Trim(word, "\"'`([$")
	if i := strings.LastIndex(word, "bin/"); i >= 0 {
		word = word[i+len("bin/"):]
	}
	return word
}

// value returns the secret after a flag: the rest of its argument, or the next argument.
func (t tool) value(text string, at, stop, end int) (span, bool) {
	apart := at == stop
	if apart && !t.apart || !apart && !t.joined {
		return span{}, false
	}
	if apart {
		at += endOf(text[at:end], func(c byte) bool { return !isSpace(c) })
	}
	start, last, quoted := valueAt(text[:end], at, isSpace)
	if !quoted {
		last = start + len(strings.TrimRight(text[start:last], "\"'`)"))
	}
	if t.user != 0 {
		i := strings.IndexByte(text[start:last], t.user)
		if i < 0 {
			return span{}, false
		}
		start += i + 1
	}
	return span{start: start, end: last, name: "password-flag"}, isPassword(text[start:last])
}

// isPassword reports whether a value can be a password, and is no other flag and no port.
func isPassword(value string) bool {
	return len(value) >= minSecret && !isPlaceholder(value) && value[0] != '-' && value[0] != '=' &&
		!mapping.MatchString(value)
}

// mapping matches ports, which some programs have after -p, too.
var mapping = regexp.MustCompile(`^\d{1,5}:\d{1,5}(?:/(?:tcp|udp))?$`)
