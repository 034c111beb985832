// Package shells writes what is generated from the model of a command line: the completions for shells, and the man
// page.
//
// It knows no command of the program, and no shell asks it anything: what it writes is a script that is complete.
package shells

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A word is a flag or an argument of a command, as the completions and the man page show it. It is read from the model
// that the command line is parsed by.
type word struct {
	names   []string // of a flag: --store, -s; none for an argument
	value   string   // what stands for the value, empty for a flag without one
	help    string
	choices []string // the only values
	kind    kind
	envs    []string
	many    bool // it can be repeated
}

// A kind says what values there are.
type kind int

const (
	anyText kind = iota
	aFile
	aFolder
	aCommand // and its arguments: all that follows
)

type verb struct {
	node  *kong.Node
	flags []word
	args  []word
}

func verbs(model *kong.Application) (all []verb) {
	for _, node := range model.Leaves(true) {
		v := verb{node: node}
		for _, flags := range node.AllFlags(true) {
			for _, f := range flags {
				v.flags = append(v.flags, flagWord(f))
			}
		}
		for _, arg := range node.Positional {
			v.args = append(v.args, argWord(arg))
		}
		all = append(all, v)
	}
	return all
}

func commonFlags(model *kong.Application) (all []word) {
	for _, f := range model.Flags {
		if !f.Hidden {
			all = append(all, flagWord(f))
		}
	}
	return all
}

// own returns the flags that not every command has.
func (v verb) own(common []word) []word {
	return slices.DeleteFunc(slices.Clone(v.flags), func(flag word) bool {
		return slices.ContainsFunc(common, func(other word) bool { return other.names[0] == flag.names[0] })
	})
}

// runs reports whether the arguments are a command and its own.
func (v verb) runs() bool {
	return slices.ContainsFunc(v.args, func(arg word) bool { return arg.kind == aCommand })
}

func flagWord(f *kong.Flag) word {
	w := valueWord(f.Value)
	w.names, w.envs = []string{"--" + f.Name}, f.Envs
	if f.Short != 0 {
		w.names = append(w.names, "-"+string(f.Short))
	}
	if f.Tag.Negatable != "" {
		w.names = append(w.names, "--no-"+f.Name)
	}
	if f.IsBool() || f.IsCounter() {
		w.value = ""
	} else {
		w.value = strings.Trim(f.FormatPlaceHolder(), `"`)
	}
	return w
}

func argWord(v *kong.Value) word {
	w := valueWord(v)
	w.value = strings.ToUpper(v.Name)
	if v.Tag.PlaceHolder != "" {
		w.value = v.Tag.PlaceHolder
	}
	return w
}

func valueWord(v *kong.Value) word {
	w := word{help: v.Help, many: v.IsCumulative()}
	if v.Enum != "" {
		w.choices = v.EnumSlice()
	}
	switch {
	case v.Passthrough || v.PassthroughMode != kong.PassThroughModeNone:
		w.kind = aCommand
	case v.Tag.Type == "existingdir" || v.Tag.PlaceHolder == "DIR":
		w.kind = aFolder
	case v.Tag.Type == "path" || v.Tag.Type == "existingfile" || v.Tag.Type == "filecontent":
		w.kind = aFile
	}
	return w
}

// An actions is how a shell is told what completes a value.
type actions struct {
	choices                     func(all string) string // with spaces between them
	file, folder, command, none string
}

func (w word) action(of *actions) string {
	switch {
	case len(w.choices) > 0:
		return of.choices(strings.Join(w.choices, " "))
	case w.kind == aFile:
		return of.file
	case w.kind == aFolder:
		return of.folder
	case w.kind == aCommand:
		return of.command
	}
	return of.none
}

func (w word) summary() string { return FirstSentence(w.help) }

// FirstSentence is that of a help, without its dot.
func FirstSentence(help string) string {
	sentence, _, _ := strings.Cut(strings.ReplaceAll(help, "\n", " "), ". ")
	return strings.TrimSuffix(sentence, ".")
}

func (w word) usage() string {
	if len(w.names) == 0 {
		return w.value
	}
	name := strings.Join(w.names, ", ")
	if w.value != "" {
		name += "=" + w.value
	}
	return name
}

// inQuotes is text between single quotes of a shell.
func inQuotes(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// A script is the text of a completion.
type script struct{ strings.Builder }

func (s *script) line(format string, arguments ...any) {
	_, _ = fmt.Fprintf(s, format+"\n", arguments...) // never fails
}

// Detail is all that there is to say of a command.
func Detail(node *kong.Node) string {
	if more, has := reflect.TypeAssert[interface{ More() string }](node.Target); has {
		return node.Detail + "\n\n" + more.More()
	}
	return node.Detail
}
