package shells

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Man is the man page, in the macros that every man program knows.
func Man(model *kong.Application) string {
	summary, rest, _ := strings.Cut(model.Help, "\n\n")
	common := commonFlags(model)
	var s script
	s.line(".TH %s 1", strings.ToUpper(model.Name))
	s.line(".SH NAME\n%s \\- %s", roff(model.Name), roff(strings.TrimSuffix(summary, ".")))
	s.line(".SH SYNOPSIS\n.B %s\n.I command\n[\\fIflags\\fR]", roff(model.Name))
	s.line(".SH DESCRIPTION")
	manText(&s, rest)
	s.line(".SH OPTIONS\nEvery command has these.")
	manWords(&s, common)
	s.line(".SH COMMANDS")
	for _, v := range verbs(model) {
		manVerb(&s, v, common)
	}
	manEnvironment(&s, model)
	return s.String()
}

func manVerb(s *script, v verb, common []word) {
	s.line(".SS %s", roff(v.node.Name))
	synopsis := []string{`\fB` + roff(v.node.FullPath()) + `\fR [\fIflags\fR]`}
	for _, arg := range v.args {
		synopsis = append(synopsis, `\fI`+roff(arg.value)+`\fR`)
	}
	s.line("%s\n.PP", strings.Join(synopsis, " "))
	manText(s, v.node.Help)
	if detail := Detail(v.node); detail != "" {
		s.line(".PP")
		manText(s, detail)
	}
	manWords(s, append(v.args, v.own(common)...))
}

func manWords(s *script, words []word) {
	for _, w := range words {
		s.line(".TP\n\\fB%s\\fR", roff(w.usage()))
		help := w.help
		if len(w.envs) > 0 {
			help += " ($" + strings.Join(w.envs, ", $") + ")"
		}
		s.line("%s", roff(help))
	}
}

// manEnvironment lists the variables that are values of flags.
func manEnvironment(s *script, model *kong.Application) {
	s.line(".SH ENVIRONMENT")
	seen := map[string]bool{}
	list := func(flags []word) {
		for _, f := range flags {
			for _, name := range f.envs {
				if !seen[name] {
					seen[name] = true
					s.line(".TP\n.B %s\n%s", roff(name), roff("The value of "+f.names[0]+" where that is not given."))
				}
			}
		}
	}
	for _, v := range verbs(model) {
		list(v.flags)
	}
}

// manText prints paragraphs. Lines that are indented stay as they are.
func manText(s *script, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			s.line(".PP")
		}
		verbatim := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			switch indented := strings.HasPrefix(line, " "); {
			case indented && !verbatim:
				s.line(".PP\n.nf")
			case !indented && verbatim:
				s.line(".fi")
			}
			verbatim = strings.HasPrefix(line, " ")
			s.line("%s", roff(line))
		}
		if verbatim {
			s.line(".fi")
		}
	}
}

var roffSpecial = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ")

// roff escapes text. A line that begins with a dot or a quote would be a request.
func roff(text string) string {
	text = roffSpecial.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
