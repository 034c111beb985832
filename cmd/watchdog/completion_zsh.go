package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// zshScript is the completion for zsh: a file of the fpath, or one to source.
func zshScript(model *kong.Application) string {
	var s script
	s.line("#compdef %s", model.Name)
	s.line("# zsh completion for %s, made by: %s completion zsh", model.Name, model.Name)
	s.line("_%s_command() {", model.Name)
	s.line("\tif [[ $words[1] == -- ]]; then\n\t\tshift words\n\t\t((CURRENT--))\n\tfi\n\t_normal\n}")
	s.line("_%s() {", model.Name)
	s.line("\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n\tlocal -a commands\n\tcommands=(")
	for _, v := range verbs(model) {
		s.line("\t\t%s", inQuotes(v.node.Name+":"+strings.ReplaceAll(firstSentence(v.node.Help), ":", `\:`)))
	}
	s.line("\t)\n\t_arguments -C \\")
	zshFlags(&s, "\t\t", commonFlags(model))
	s.line("\t\t'1: :->command' \\\n\t\t'*:: :->argument' && return")
	s.line("\tcase $state in\n\t\tcommand) _describe -t commands command commands ;;")
	s.line("\t\targument)\n\t\t\tcase $words[1] in")
	for _, v := range verbs(model) {
		s.line("\t\t\t\t%s)\n\t\t\t\t\t_arguments \\", v.node.Name)
		zshFlags(&s, "\t\t\t\t\t\t", v.flags)
		for _, arg := range v.args {
			s.line("\t\t\t\t\t\t%s \\", inQuotes(zshArgument(model.Name, arg)))
		}
		s.line("\t\t\t\t\t\t&& return ;;")
	}
	s.line("\t\t\tesac ;;\n\tesac\n}")
	s.line(`if [[ $zsh_eval_context[-1] == loadautofunc ]]; then`)
	s.line("\t_%s \"$@\"\nelse\n\tcompdef _%s %s\nfi", model.Name, model.Name, model.Name)
	return s.String()
}

func zshFlags(s *script, indent string, flags []word) {
	for _, f := range flags {
		for _, name := range f.names {
			s.line("%s%s \\", indent, inQuotes(zshFlag(f, name)))
		}
	}
}

// zshFlag is the specification of a flag: its name, its help, and what completes its value.
func zshFlag(w word, name string) string {
	spec := name
	if w.value != "" && strings.HasPrefix(name, "--") {
		spec += "="
	}
	if w.many {
		spec = "*" + spec
	}
	spec += "[" + zshEscape(w.summary()) + "]"
	if w.value != "" {
		spec += ":" + zshEscape(w.value) + ":" + zshAction(w)
	}
	return spec
}

func zshArgument(program string, w word) string {
	name := zshEscape(w.value)
	switch {
	case w.kind == aCommand:
		return "*::" + name + ":_" + program + "_command"
	case w.many:
		return "*:" + name + ":" + zshAction(w)
	default:
		return ":" + name + ":" + zshAction(w)
	}
}

func zshAction(w word) string {
	switch {
	case len(w.choices) > 0:
		return "(" + strings.Join(w.choices, " ") + ")"
	case w.kind == aFile:
		return "_files"
	case w.kind == aFolder:
		return "_files -/"
	default:
		return " "
	}
}

var zshSpecial = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)

func zshEscape(text string) string { return zshSpecial.Replace(text) }
