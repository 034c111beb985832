package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// fishScript is the completion for fish.
func fishScript(model *kong.Application) string {
	var s script
	s.line("# fish completion for %s, made by: %s completion fish", model.Name, model.Name)
	s.line("complete -c %s -f", model.Name)
	for _, f := range commonFlags(model) {
		s.line("complete -c %s%s", model.Name, fishFlag(f))
	}
	for _, v := range verbs(model) {
		s.line("complete -c %s -n __fish_use_subcommand -a %s -d %s", model.Name, v.node.Name,
			fishQuoted(firstSentence(v.node.Help)))
	}
	for _, v := range verbs(model) {
		in := "complete -c " + model.Name + " -n " + fishQuoted("__fish_seen_subcommand_from "+v.node.Name)
		for _, f := range v.own(commonFlags(model)) {
			s.line("%s%s", in, fishFlag(f))
		}
		for _, arg := range v.args {
			if action := fishArgument(v, arg); action != "" {
				s.line("%s%s", in, action)
			}
		}
	}
	return s.String()
}

func fishFlag(w word) string {
	var text strings.Builder
	for _, name := range w.names {
		if long, ok := strings.CutPrefix(name, "--"); ok {
			text.WriteString(" -l " + long)
		} else {
			text.WriteString(" -s " + strings.TrimPrefix(name, "-"))
		}
	}
	switch {
	case w.value == "":
	case w.kind == aFile:
		text.WriteString(" -r" + fishAction(w))
	default:
		text.WriteString(" -x" + fishAction(w)) // without it, fish offers the files of the folder
	}
	return text.String() + " -d " + fishQuoted(w.summary())
}

// fishArgument completes an argument. A command is what is left without the program, its own command, and the flags of
// that with their values.
func fishArgument(v verb, arg word) string {
	if arg.kind != aCommand {
		return fishAction(arg)
	}
	skipped := []string{"-"} // fish takes long names for flags of its own before a word that is none
	for _, f := range v.flags {
		if f.value != "" {
			skipped = append(skipped, f.names...)
		}
	}
	return " -a '(__fish_complete_subcommand --fcs-skip=2 " + strings.Join(skipped, " ") + ")'"
}

func fishAction(w word) string {
	switch {
	case len(w.choices) > 0:
		return " -a " + fishQuoted(strings.Join(w.choices, " "))
	case w.kind == aFile:
		return " -F"
	case w.kind == aFolder:
		return " -a '(__fish_complete_directories)'"
	default:
		return ""
	}
}

var fishSpecial = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func fishQuoted(text string) string { return "'" + fishSpecial.Replace(text) + "'" }
