package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// maxItems is more than anyone lists.
const (
	maxItems = 1000
	maxFew   = 100 // of what is worked off one by one
)

// list reads a list. One reads an item that comes after others. Where zero is set, 0 is an empty list.
func list[T any](v value, most int, items string, zero bool, one func(v value, before []T) (T, string)) ([]T, *invalidValue) {
	switch {
	case v.unsupported != "":
		return nil, v.invalid(v.unsupported)
	case !v.list && zero && v.quoted:
		return nil, v.invalid("is quoted; write the number without quotes")
	case !v.list && (!zero || v.text != "0"):
		return nil, v.invalid("is not a list")
	case len(v.items) > most:
		return nil, v.invalid(fmt.Sprintf("has more than %d %s", most, items))
	}
	var all []T
	for _, item := range v.items {
		parsed, problem := one(item, all)
		if problem != "" {
			return nil, item.invalid(problem)
		}
		all = append(all, parsed)
	}
	return all, nil
}

// splitUnlessZero splits a variable by commas. A single 0 means nothing.
func splitUnlessZero(text string) value {
	if text == "0" {
		return fromText(text)
	}
	return fromList(text)
}

// joined shows a list, shortened.
func joined(texts []string) string {
	return shorten(cmp.Or(strings.Join(texts, ", "), "none"), maxShown)
}

func isEmpty[T any](all []T) bool { return len(all) == 0 }

// fractions is the kind of a list of different fractions between 0 and 1. Without one there are those of the default.
func fractions(field func(*Config) *[]float64, fallback float64) kind {
	show := func(all []float64) string {
		if all == nil {
			all = []float64{fallback}
		}
		var texts []string
		for _, fraction := range all {
			texts = append(texts, strconv.FormatFloat(fraction, 'g', -1, 64))
		}
		return cmp.Or(strings.Join(texts, ", "), "off")
	}
	k := of(field, func(v value) ([]float64, *invalidValue) {
		all, invalid := list(v, maxFew, "fractions", true, parseFraction)
		return append([]float64{}, all...), invalid // none is not the default
	}, show, func(all []float64) bool { return all != nil && len(all) == 0 })
	k.disable = func(c *Config) { *field(c) = []float64{} }
	k.split = splitUnlessZero
	k.allows = "different fractions between 0 and 1, in a file such as [0.5, 0.8], " +
		"in the environment such as 0.5,0.8, or 0 for none"
	k.schema = `{"anyOf": [{"const": 0}, {"type": "array", "maxItems": 100, "items": ` +
		`{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}]}`
	return k
}

func parseFraction(v value, before []float64) (fraction float64, problem string) {
	if problem := numberProblem(v); problem != "" {
		return 0, problem
	}
	fraction, err := strconv.ParseFloat(v.text, 64)
	switch {
	case err != nil || fraction <= 0 || fraction >= 1:
		return 0, "is not between 0 and 1"
	case slices.Contains(before, fraction):
		return 0, "is a duplicate"
	}
	return fraction, ""
}

// spendWarnings is the kind of the fractions of all counted limits. Without one there are no warnings.
func spendWarnings(k kind) kind {
	show := k.show
	k.show = func(c *Config) string {
		if c.Budget.Spend.WarnAt == nil && !limitsSpend(c.Budget.Spend) {
			return "off"
		}
		return show(c)
	}
	k.disable = func(c *Config) { c.Budget.Spend.WarnAt = nil }
	return k
}

// directives are what a rung can be, and what it is taken for.
var directives = []watchdog.DirectiveKind{
	watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveWrapUp,
	watchdog.DirectiveCancel,
}

// ladder is the kind of a list of directives. Fallback is the default, which an empty one is, too.
func ladder(field func(*Config) *[]watchdog.DirectiveKind, fallback ...watchdog.DirectiveKind) kind {
	// It includes the cancel after the last rung, also if it was left out. None comes after a wait.
	show := func(rungs []watchdog.DirectiveKind) string {
		if len(rungs) == 0 {
			rungs = fallback
		}
		if n := len(rungs); n == 0 || rungs[n-1] != watchdog.DirectiveWait && rungs[n-1] != watchdog.DirectiveCancel {
			rungs = append(slices.Clone(rungs), watchdog.DirectiveCancel)
		}
		return strings.Join(words(rungs), ", ")
	}
	k := of(field, func(v value) ([]watchdog.DirectiveKind, *invalidValue) {
		return list(v, maxFew, "rungs", false, parseRung)
	}, show, isEmpty)
	k.split = fromList
	k.allows = "wait, retry, unstuck and cancel in any number, cancel only as the last, " +
		"in a file such as [retry, retry, cancel], in the environment such as retry,retry,cancel"
	k.schema = `{"type": "array", "maxItems": 100, "items": {"enum": ["wait", "retry", "unstuck", "cancel"]}}`
	return k
}

func parseRung(v value, before []watchdog.DirectiveKind) (watchdog.DirectiveKind, string) {
	problem := wordProblem(v)
	switch {
	case problem != "":
	case v.text == string(watchdog.DirectiveWrapUp):
		problem = "is no rung: it comes by itself when only the reserve of a limit is left"
	case slices.Contains(before, watchdog.DirectiveCancel):
		problem = "comes after cancel, which ends the run"
	default:
		problem = unknownWord(v.text, "a directive", words(directives))
	}
	return watchdog.DirectiveKind(v.text), problem
}

const textsSchema = `{"type": "array", "maxItems": 1000, "items": {"type": "string", "minLength": 1}}`

// ownKinds is the prefix of the watchdog's own events, which are never signals.
var ownKinds = strings.TrimSuffix(watchdog.EventCancel, "cancel")

// events is the kind of a list of the host's own kinds of event. It has no variable: the sets depend on the host's
// program, not on its environment.
func events(field func(*Config) *[]string, class string) kind {
	k := of(field, nil, joined, isEmpty)
	k.set = func(c *Config, v value) *invalidValue {
		*field(c) = nil
		all, invalid := list(v, maxItems, "kinds", false, func(v value, before []string) (string, string) {
			problem := kindProblem(v)
			has := c.classOf(v.text)
			if slices.Contains(before, v.text) {
				has = class
			}
			if problem == "" && has != "" {
				problem = "is a duplicate; it is " + has + " already"
			}
			return v.text, problem
		})
		*field(c) = all
		return invalid
	}
	k.allows = "a list of the host's own kinds of event such as [tool.result, commit], each in one list only"
	k.schema, k.noVariable = textsSchema, true
	return k
}

// classOf returns the class of the set that has the kind already, or "".
func (c *Config) classOf(kind string) string {
	for class, kinds := range map[string][]string{
		watchdog.ClassMaterial: c.Kinds.Material, watchdog.ClassActivity: c.Kinds.Activity,
		watchdog.ClassIgnored: c.Kinds.Ignored,
	} {
		if slices.Contains(kinds, kind) {
			return class
		}
	}
	return ""
}

var plainKind = formOf(`^[A-Za-z_]`)

func kindProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	switch {
	case !v.quoted && (!plainKind().MatchString(v.text) || slices.Contains(ambiguousWords, strings.ToLower(v.text))):
		return "is not a text to every reader; write it in quotes"
	case unseenProblem(v.text) != "":
		return unseenProblem(v.text)
	case strings.HasPrefix(v.text, ownKinds):
		return "is a kind of the watchdog's own events, which are never signals"
	}
	return ""
}

// fieldNames is the kind of a list of names of fields. 0 is none.
func fieldNames(field func(*Config) *[]string) kind {
	const most = 255 // characters, more than a name has
	one := func(v value, before []string) (string, string) {
		switch {
		case v.text == "" && v.unsupported == "" && !v.list:
			return "", "is empty"
		case utf8.RuneCountInString(v.text) > most:
			return "", "is longer than 255 characters"
		case slices.Contains(before, v.text):
			return "", "is a duplicate"
		}
		return v.text, cmp.Or(textProblem(v), unseenProblem(v.text))
	}
	k := of(field, func(v value) ([]string, *invalidValue) { return list(v, maxItems, "names", true, one) }, joined, isEmpty)
	k.split, k.schema = splitUnlessZero, `{"anyOf": [{"const": 0}, `+textsSchema+`]}`
	k.allows = "a list of the names of different fields, in a file such as [elapsed, request_id], " +
		"in the environment such as elapsed,request_id, or 0 for none"
	return k
}

// patterns is the kind of a list of regular expressions. It has no variable, because a pattern can contain commas.
func patterns(field func(*Config) *[]*regexp.Regexp) kind {
	show := func(all []*regexp.Regexp) string {
		var texts []string
		for _, pattern := range all {
			texts = append(texts, shown(pattern.String(), maxShown))
		}
		return joined(texts)
	}
	k := of(field, func(v value) ([]*regexp.Regexp, *invalidValue) {
		return list(v, maxFew, "patterns", false, parsePattern)
	}, show, isEmpty)
	k.allows = "a list of different regular expressions of Go such as ['^fatal: ', 'out of memory']"
	k.schema, k.noVariable = textsSchema, true
	return k
}

func parsePattern(v value, before []*regexp.Regexp) (pattern *regexp.Regexp, problem string) {
	if v.unsupported != "" || v.list {
		return nil, "is not a text; write the pattern in single quotes"
	}
	if v.text == "" {
		return nil, "is empty"
	}
	if problem := textProblem(v); problem != "" {
		return nil, problem
	}
	pattern, err := regexp.Compile(v.text)
	var at *syntax.Error
	switch {
	case errors.As(err, &at):
		return nil, "is not a regular expression: " + at.Code.String() + " at " + shown(at.Expr, maxShown)
	case err != nil:
		return nil, "is not a regular expression: " + shown(err.Error(), maxReason)
	case pattern.MatchString("") && pattern.MatchString("\x00") && pattern.MatchString("a line"):
		return nil, "matches every line, and would end every command; check it for an empty alternative"
	case slices.ContainsFunc(before, func(p *regexp.Regexp) bool { return p.String() == v.text }):
		return nil, "is a duplicate"
	}
	return pattern, ""
}

// command is the kind of a program and its arguments, each a text, or of one text for the shell. Errors and the printed
// limits never show an argument: it can hold a secret. It has no variable, because a list divided by commas is not a
// command line.
func command(field func(*Config) *[]string, example string) kind {
	k := of(field, parseCommand, func(line []string) string {
		switch len(line) {
		case 0:
			return "none"
		case 1:
			return shown(line[0], maxShown)
		case 2:
			return shown(line[0], maxShown) + " and 1 argument"
		default:
			return fmt.Sprintf("%s and %d arguments", shown(line[0], maxShown), len(line)-1)
		}
	}, isEmpty)
	k.allows = "a list of the program and its arguments such as " + example + ", or a text for sh -c"
	k.schema, k.noVariable = `{"anyOf": [{"type": "string", "minLength": 1}, `+
		`{"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"}}]}`, true
	return k
}

func parseCommand(v value) ([]string, *invalidValue) {
	if v.unsupported != "" && !v.block {
		return nil, v.invalid(v.unsupported)
	}
	if !v.list { // the shell reads it; in a block of text every reader sees a text
		problem := argumentProblem(v)
		if strings.TrimSpace(v.text) == "" {
			problem = "is empty; write the program"
		}
		return []string{"sh", "-c", v.text}, v.invalid(problem)
	}
	if len(v.items) == 0 {
		return nil, v.invalid("is empty; write the program")
	}
	return list(v, maxItems, "items", false, func(item value, before []string) (string, string) {
		problem := argumentProblem(item)
		if problem == "" && item.text == "" && len(before) == 0 {
			problem = "is empty; write the program"
		}
		if item.block {
			problem = item.unsupported
		}
		return item.text, problem
	})
}

func argumentProblem(v value) string {
	switch {
	case !v.block && textProblem(v) != "":
		return textProblem(v)
	case strings.ContainsRune(v.text, 0):
		return "has the control character U+0000; remove it"
	}
	return ""
}

// toolCalls is the kind of the numbers of calls of single tools.
func toolCalls(field func(*Config) *map[string]int64) kind {
	k := byTool(field, "number", "numbers", "off", parseQuantity)
	k.allows = "the names of tools with whole numbers of calls, in a file such as {bash: 100, search: 20}, " +
		"in the environment such as bash=100,search=20, or 0 for no limit"
	k.schema = fmt.Sprintf(k.schema, wholeSchema)
	return k
}

// classes is the kind of the classes of single tools.
func classes(field func(*Config) *map[string]loop.Class) kind {
	known := words([]loop.Class{loop.Look, loop.Change, loop.Wait, loop.Drive, loop.Person})
	k := byTool(field, "class", "classes", "none", func(v value) (loop.Class, string) {
		problem := wordProblem(v)
		if problem == "" {
			problem = unknownWord(v.text, "a class", known)
		}
		return loop.Class(v.text), problem
	})
	k.allows = "the names of tools with look, change, wait, drive or person, in a file such as " +
		"{deploy: change, poll_job: wait}, in the environment such as deploy=change,poll_job=wait, or 0 for none"
	k.schema = fmt.Sprintf(k.schema, `{"enum": ["`+strings.Join(known, `", "`)+`"]}`)
	return k
}

// byTool is the kind of what single tools have, by their names. A tool with a zero has nothing. One and all say what a
// tool has, and what several have, in errors; none is shown if none has any.
func byTool[V comparable](
	field func(*Config) *map[string]V, one, all, none string, parse func(value) (of V, problem string),
) kind {
	k := of(field, func(v value) (map[string]V, *invalidValue) {
		switch {
		case !v.mapping && v.unsupported != "":
			return nil, v.invalid(v.unsupported)
		case !v.mapping && (v.text != "0" || v.quoted):
			return nil, v.invalid("is not a mapping of names and " + all)
		case len(v.entries) > maxItems:
			return nil, v.invalid("has more than 1000 tools")
		}
		return tools(v.entries, parse)
	}, func(tools map[string]V) string {
		var items []string
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			items = append(items, fmt.Sprintf("%s=%v", name, tools[name]))
		}
		return shorten(cmp.Or(strings.Join(items, ", "), none), maxShown)
	}, func(tools map[string]V) bool { return len(tools) == 0 })
	k.split = func(text string) value { return fromPairs(text, one) }
	k.schema = `{"anyOf": [{"const": 0}, {"type": "object", "additionalProperties": %s}]}`
	return k
}

// fromPairs reads pairs such as bash=100,search=20. A name may have an equals sign, and no comma.
func fromPairs(text, one string) value {
	v := fromText(text)
	if text == "0" {
		return v
	}
	v.mapping = true
	for item := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(item, "=")
		if i < 0 {
			wrong := fromText(item)
			wrong.unsupported = "is not a name, an equals sign and a " + one
			v.entries = append(v.entries, entry{key: wrong, value: wrong})
			continue
		}
		v.entries = append(v.entries, entry{key: fromText(item[:i]), value: fromText(item[i+1:])})
	}
	return v
}

// tools returns the tools that have something, nil for none.
func tools[V comparable](entries []entry, parse func(value) (V, string)) (tools map[string]V, invalid *invalidValue) {
	seen := map[string]bool{}
	for _, e := range entries {
		problem, of := e.nameProblem(seen), *new(V)
		if problem == "" && !e.absent {
			of, problem = parse(e.value)
		}
		if problem != "" {
			return nil, e.invalid(problem)
		}
		seen[e.key.text] = true
		if of == *new(V) {
			continue
		}
		if tools == nil {
			tools = map[string]V{}
		}
		tools[e.key.text] = of
	}
	return tools, nil
}

// nameProblem returns what is wrong with the name of a tool.
func (e entry) nameProblem(seen map[string]bool) string {
	name := e.key.text
	switch {
	case e.key.unsupported != "":
		return e.key.unsupported
	case e.key.merge:
		return "is a merge key; write the names themselves"
	case name == "":
		return "has an empty name"
	case seen[name]:
		return "is a second value; write one"
	case utf8.RuneCountInString(name) > watchdog.MaxAggregateID:
		return fmt.Sprintf("has a name of more than %d characters", watchdog.MaxAggregateID)
	}
	if problem := cmp.Or(textProblem(e.key), unseenProblem(name)); problem != "" {
		return "has a name that " + problem
	}
	return ""
}

// invalid names the entry.
func (e entry) invalid(problem string) *invalidValue {
	v := e.value
	v.line = e.key.line
	if e.key.show != v.show {
		v.show = e.key.show + ": " + v.show
	}
	return v.invalid(problem)
}
