package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// bashScript is the completion for bash. It needs nothing of the package bash-completion.
func bashScript(model *kong.Application) string {
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

// bashSkips skips the values of flags.
func bashSkips(s *script, model *kong.Application) {
	s.line("\t\t\t%s) [[ ${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i++)) ;;", bashFlags("", commonFlags(model)))
	for _, v := range verbs(model) {
		if names := bashFlags(v.node.Name, v.own(commonFlags(model))); names != "" {
			s.line("\t\t\t%s) [[ ${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i++)) ;;", names)
		}
	}
}

// bashFlags are the patterns of the flags with values, after a command, or after any for an empty one.
func bashFlags(command string, flags []word) string {
	var patterns []string
	for _, f := range flags {
		if f.value == "" {
			continue
		}
		for _, name := range f.names {
			patterns = append(patterns, bashPattern(command, name))
		}
	}
	return strings.Join(patterns, " | ")
}

func bashPattern(command, flag string) string {
	if command == "" {
		return "*" + inQuotes(" "+flag)
	}
	return inQuotes(command + " " + flag)
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

// bashValues completes the value of a flag.
func bashValues(s *script, model *kong.Application) {
	value := func(command string, flags []word) {
		for _, f := range flags {
			if f.value == "" {
				continue
			}
			var patterns []string
			for _, name := range f.names {
				patterns = append(patterns, bashPattern(command, name))
			}
			s.line("\t\t%s) %s; return ;;", strings.Join(patterns, " | "), bashAction(f))
		}
	}
	common := commonFlags(model)
	value("", common)
	for _, v := range verbs(model) {
		value(v.node.Name, v.own(common))
	}
	s.line("\t\t*) ;;")
}

func bashAction(w word) string {
	switch {
	case len(w.choices) > 0:
		return `COMPREPLY=($(compgen -W ` + inQuotes(strings.Join(w.choices, " ")) + ` -- "$current"))`
	case w.kind == aCommand:
		return `COMPREPLY=($(compgen -c -- "$current"))`
	case w.kind == aFile:
		return "compopt -o default 2>/dev/null"
	case w.kind == aFolder:
		return `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current"))`
	default:
		return ":"
	}
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
			s.line("\t\t\telse\n\t\t\t\t%s", bashAction(v.args[0]))
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
