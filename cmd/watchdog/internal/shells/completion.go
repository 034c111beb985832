package shells

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Bash is the completion for bash. It needs nothing of the package bash-completion.
func Bash(model *kong.Application) string {
	var s script
	s.line("# bash completion for %s, made by: %s completion bash", model.Name, model.Name)
	s.line("_%s() {", model.Name)
	s.line(`	local current=${COMP_WORDS[COMP_CWORD]} flag= command= rest= i
	COMPREPLY=()
	if [[ $current == = ]]; then
		flag=${COMP_WORDS[COMP_CWORD-1]} current=
	elif ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
		flag=${COMP_WORDS[COMP_CWORD-2]}
	else
		flag=${COMP_WORDS[COMP_CWORD-1]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$command ${COMP_WORDS[i]}" in
			*' --') rest=$((i + 1)); break ;;`)
	bashSkips(&s, model)
	s.line(`			*' :') ((i++)) ;; # of a value such as sqlite:PATH
			*' -'* | *' =') ;;`)
	for _, v := range verbs(model) {
		if v.runs() {
			s.line("\t\t\t'%s '*) rest=$i; break ;;", v.node.Name)
		}
	}
	s.line(`			' '*) command=${COMP_WORDS[i]} ;;
			*) ;;
		esac
	done
	if [[ $rest ]]; then`)
	bashRest(&s, model)
	s.line(`		return
	fi
	case "$command $flag" in`)
	bashValues(&s, model)
	s.line(`	esac
	case "$command" in`)
	bashWords(&s, model)
	s.line(`	esac
}`)
	s.line("complete -o nosort -F _%[1]s %[1]s 2>/dev/null || complete -F _%[1]s %[1]s", model.Name)
	return s.String()
}

func bashSkips(s *script, model *kong.Application) {
	eachFlags(model, func(command string, flags []word) {
		var patterns []string
		for _, f := range flags {
			patterns = append(patterns, bashPatterns(command, f)...)
		}
		if len(patterns) > 0 {
			s.line("\t\t\t%s) [[ ${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i++)) ;;", strings.Join(patterns, " | "))
		}
	})
}

// eachFlags calls a func with the flags of all commands, and an empty name, and with those that one command has alone.
func eachFlags(model *kong.Application, call func(command string, flags []word)) {
	common := commonFlags(model)
	call("", common)
	for _, v := range verbs(model) {
		call(v.node.Name, v.own(common))
	}
}

// bashPatterns match a flag with a value after a command, or after any for an empty one.
func bashPatterns(command string, flag word) (patterns []string) {
	for _, name := range flag.names {
		switch {
		case flag.value == "":
		case command == "":
			patterns = append(patterns, "*"+inQuotes(" "+name))
		default:
			patterns = append(patterns, inQuotes(command+" "+name))
		}
	}
	return patterns
}

// bashRest completes a command and its arguments, where a command of the program has them.
func bashRest(s *script, model *kong.Application) {
	s.line(`		case "$command" in`)
	for _, v := range verbs(model) {
		if !v.runs() {
			continue
		}
		s.line("\t\t\t%s)", v.node.Name)
		s.line(`				if ((COMP_CWORD == rest)); then
					COMPREPLY=($(compgen -c -- "$current"))
				else
					compopt -o default 2>/dev/null
				fi ;;`)
	}
	s.line("\t\t\t*) ;;\n\t\tesac")
}

func bashValues(s *script, model *kong.Application) {
	eachFlags(model, func(command string, flags []word) {
		for _, f := range flags {
			if patterns := bashPatterns(command, f); len(patterns) > 0 {
				s.line("\t\t%s) %s; return ;;", strings.Join(patterns, " | "), f.action(&bashActions))
			}
		}
	})
	s.line("\t\t*) ;;")
}

var bashActions = actions{
	choices: func(all string) string { return `COMPREPLY=($(compgen -W ` + inQuotes(all) + ` -- "$current"))` },
	file:    "compopt -o default 2>/dev/null",
	folder:  `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current"))`,
	command: `COMPREPLY=($(compgen -c -- "$current"))`, none: ":",
}

// bashWords completes a command, or a flag or an argument of one.
func bashWords(s *script, model *kong.Application) {
	var commands []string
	for _, v := range verbs(model) {
		commands = append(commands, v.node.Name)
	}
	s.line("\t\t'') COMPREPLY=($(compgen -W %s -- \"$current\")) ;;",
		inQuotes(strings.Join(append(commands, flagNames(commonFlags(model))...), " ")))
	for _, v := range verbs(model) {
		s.line("\t\t%s)", v.node.Name)
		s.line("\t\t\tif [[ $current == -* ]]; then")
		s.line("\t\t\t\tCOMPREPLY=($(compgen -W %s -- \"$current\"))", inQuotes(strings.Join(flagNames(v.flags), " ")))
		if len(v.args) > 0 {
			s.line("\t\t\telse\n\t\t\t\t%s", v.args[0].action(&bashActions))
		}
		s.line("\t\t\tfi ;;")
	}
	s.line("\t\t*) ;;")
}

func flagNames(flags []word) (names []string) {
	for _, f := range flags {
		for _, name := range f.names {
			if strings.HasPrefix(name, "--") {
				names = append(names, name)
			}
		}
	}
	return names
}

// Zsh is the completion for zsh: a file of the fpath, or one to source.
func Zsh(model *kong.Application) string {
	var s script
	s.line("#compdef %s", model.Name)
	s.line("# zsh completion for %s, made by: %s completion zsh", model.Name, model.Name)
	s.line("_%s_command() {", model.Name)
	s.line("\tif [[ $words[1] == -- ]]; then\n\t\tshift words\n\t\t((CURRENT--))\n\tfi\n\t_normal\n}")
	s.line("_%s() {", model.Name)
	s.line("\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n\tlocal -a commands\n\tcommands=(")
	for _, v := range verbs(model) {
		s.line("\t\t%s", inQuotes(v.node.Name+":"+strings.ReplaceAll(FirstSentence(v.node.Help), ":", `\:`)))
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
		spec += ":" + zshEscape(w.value) + ":" + w.action(&zshActions)
	}
	return spec
}

func zshArgument(program string, w word) string {
	name := zshEscape(w.value)
	switch {
	case w.kind == aCommand:
		return "*::" + name + ":_" + program + "_command"
	case w.many:
		return "*:" + name + ":" + w.action(&zshActions)
	default:
		return ":" + name + ":" + w.action(&zshActions)
	}
}

var zshActions = actions{
	choices: func(all string) string { return "(" + all + ")" },
	file:    "_files", folder: "_files -/", command: " ", none: " ",
}

var zshSpecial = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)

func zshEscape(text string) string { return zshSpecial.Replace(text) }

// Fish is the completion for fish.
func Fish(model *kong.Application) string {
	var s script
	s.line("# fish completion for %s, made by: %s completion fish", model.Name, model.Name)
	s.line("complete -c %s -f", model.Name)
	for _, f := range commonFlags(model) {
		s.line("complete -c %s%s", model.Name, fishFlag(f))
	}
	for _, v := range verbs(model) {
		s.line("complete -c %s -n __fish_use_subcommand -a %s -d %s", model.Name, v.node.Name,
			fishQuoted(FirstSentence(v.node.Help)))
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
		text.WriteString(" -r" + w.action(&fishActions))
	default:
		text.WriteString(" -x" + w.action(&fishActions)) // without it, fish offers the files of the folder
	}
	return text.String() + " -d " + fishQuoted(w.summary())
}

// fishArgument completes an argument. A command is what is left without the program, its own command, and the flags of
// that with their values.
func fishArgument(v verb, arg word) string {
	if arg.kind != aCommand {
		return arg.action(&fishActions)
	}
	skipped := []string{"-"} // fish takes long names for flags of its own before a word that is none
	for _, f := range v.flags {
		if f.value != "" {
			skipped = append(skipped, f.names...)
		}
	}
	return " -a '(__fish_complete_subcommand --fcs-skip=2 " + strings.Join(skipped, " ") + ")'"
}

var fishActions = actions{
	choices: func(all string) string { return " -a " + fishQuoted(all) },
	file:    " -F", folder: " -a '(__fish_complete_directories)'",
}

var fishSpecial = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func fishQuoted(text string) string { return "'" + fishSpecial.Replace(text) + "'" }
