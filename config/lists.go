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
	"github.com/seed62658d38/watchdog/event"
)

const (
	maxItems = 1000 // more than anyone lists
	maxFew   = 100  // of what is worked off one by one
)

const textsSchema = `{"type": "array", "maxItems": 1000, "uniqueItems": true, ` +
	`"items": {"type": "string", "minLength": 1}}`

// listOf is the kind of a list of at most so many items. One reads an item that comes after others.
func listOf[T any](field func(*Config) *[]T, most int, items string, show func(T) string,
	one func(v value, before []T) (T, string)) kind {
	k := ofItems(field, func(v value) (all []T, invalid *invalidValue) {
		problem := first([]when{
			{true, v.unsupported}, {!v.list, "is not a list"},
			{len(v.items) > most, fmt.Sprintf("has more than %d %s", most, items)},
		})
		if problem != "" {
			return nil, v.invalid(problem)
		}
		for _, item := range v.items {
			parsed, problem := one(item, all)
			if problem != "" {
				return nil, item.invalid(problem)
			}
			all = append(all, parsed)
		}
		return all, nil
	}, func(all []T) string {
		var texts []string
		for _, item := range all {
			texts = append(texts, show(item))
		}
		return shorten(cmp.Or(strings.Join(texts, ", "), "none"), maxShown)
	}, func(all []T) bool { return len(all) == 0 })
	k.split = fromList
	return k
}

// orZero is a kind of a list where 0 is an empty one.
func orZero(k kind) kind {
	set := k.set
	k.set = func(c *Config, v value) *invalidValue {
		if v.text == "0" && !v.list {
			if v.quoted {
				return v.invalid("is quoted; write the number without quotes")
			}
			v.list = v.unsupported == ""
		}
		return set(c, v)
	}
	k.split = func(text string) value {
		if text == "0" {
			return fromText(text)
		}
		return fromList(text)
	}
	k.schema = `{"anyOf": [{"const": 0}, ` + k.schema + `]}`
	return k
}

func asIs(text string) string { return text }

// fractions is the kind of a list of different fractions between 0 and 1. An empty one is not the default.
func fractions(field func(*Config) *[]float64, fallback float64) kind {
	show := func(fraction float64) string { return strconv.FormatFloat(fraction, 'g', -1, 64) }
	k := listOf(field, maxFew, "fractions", show, func(v value, before []float64) (fraction float64, problem string) {
		fraction, err := strconv.ParseFloat(v.text, 64)
		return fraction, first([]when{
			{true, numberProblem(v)}, {err != nil || fraction <= 0 || fraction >= 1, "is not between 0 and 1"},
			{slices.Contains(before, fraction), "is a duplicate"},
		})
	})
	k.schema = `{"type": "array", "maxItems": 100, "uniqueItems": true, "items": ` +
		`{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}`
	k = orZero(k)
	set, shown := k.set, k.show
	k.set = func(c *Config, v value) *invalidValue {
		invalid := set(c, v)
		*field(c) = append([]float64{}, *field(c)...)
		return invalid
	}
	k.show = func(c *Config) string {
		switch {
		case *field(c) == nil:
			return show(fallback)
		case len(*field(c)) == 0:
			return "off"
		}
		return shown(c)
	}
	k.off = func(c *Config) bool { return *field(c) != nil && len(*field(c)) == 0 }
	k.disable = func(c *Config) { *field(c) = []float64{} }
	k.allows = "different fractions between 0 and 1, in a file such as [0.5, 0.8], " +
		"in the environment such as 0.5,0.8, or 0 for none"
	return k
}

// spendWarnings is the kind of the fractions of all counted limits. Without one there are no warnings.
func spendWarnings(k kind) kind {
	show := k.show
	k.show = func(c *Config) string {
		if c.Budget.Spend.WarnAt == nil && !c.limitsSpend() {
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
func ladder(field func(*Config) *[]watchdog.DirectiveKind) kind {
	type rung = watchdog.DirectiveKind
	k := listOf(field, maxFew, "rungs", nil, func(v value, before []rung) (rung, string) {
		return rung(v.text), first([]when{
			{true, wordProblem(v)},
			{v.text == string(watchdog.DirectiveWrapUp),
				"is no rung: it comes by itself when only the reserve of a limit is left"},
			{slices.Contains(before, watchdog.DirectiveCancel), "comes after cancel, which ends the run"},
			{true, unknownWord(v.text, "a directive", words(directives))},
		})
	})
	k.show = func(c *Config) string { // with the cancel after the last rung, which may be left out; none is after a wait
		rungs := *field(c)
		if n := len(rungs); n == 0 || rungs[n-1] != watchdog.DirectiveWait && rungs[n-1] != watchdog.DirectiveCancel {
			rungs = append(slices.Clone(rungs), watchdog.DirectiveCancel)
		}
		return strings.Join(words(rungs), ", ")
	}
	k.allows = "wait, retry, unstuck and cancel in any number, cancel only as the last, " +
		"in a file such as [retry, retry, cancel], in the environment such as retry,retry,cancel"
	k.schema = `{"type": "array", "maxItems": 100, "items": {"enum": ["wait", "retry", "unstuck", "cancel"]}}`
	return k
}

// ownKinds is the prefix of the watchdog's own events, which are never signals.
var ownKinds = strings.TrimSuffix(event.Cancel, "cancel")

var plainKind = formOf(`^[A-Za-z_]`)

// events is the kind of a list of the host's own kinds of event. It has no variable: the sets depend on the host's
// program, not on its environment.
func events(field func(*Config) *[]string, class string) kind {
	of := func(c *Config) kind {
		return listOf(field, maxItems, "kinds", asIs, func(v value, before []string) (string, string) {
			has := c.classOf(v.text)
			if slices.Contains(before, v.text) {
				has = class
			}
			plain := v.quoted || plainKind().MatchString(v.text) && !slices.Contains(ambiguousWords, strings.ToLower(v.text))
			return v.text, first([]when{
				{true, wordProblem(v)},
				{!plain, "is not a text to every reader; write it in quotes"},
				{true, unseenProblem(v.text)},
				{strings.HasPrefix(v.text, ownKinds), "is a kind of the watchdog's own events, which are never signals"},
				{has != "", "is a duplicate; it is " + has + " already"},
			})
		})
	}
	k := of(nil)
	k.set = func(c *Config, v value) *invalidValue { return of(c).set(c, v) }
	k.allows = "a list of the host's own kinds of event such as [tool.result, commit], each in one list only"
	k.schema, k.noVariable = textsSchema, true
	return k
}

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

// patterns is the kind of a list of regular expressions. It has no variable, because a pattern can contain commas.
func patterns(field func(*Config) *[]*regexp.Regexp) kind {
	show := func(p *regexp.Regexp) string { return shown(p.String(), maxShown) }
	k := listOf(field, maxFew, "patterns", show, parsePattern)
	k.allows = "a list of different regular expressions of Go such as ['^fatal: ', 'out of memory']"
	k.schema, k.noVariable = textsSchema, true
	return k
}

func parsePattern(v value, before []*regexp.Regexp) (pattern *regexp.Regexp, problem string) {
	problem = first([]when{
		{v.unsupported != "" || v.list, "is not a text; write the pattern in single quotes"},
		{v.text == "", "is empty"}, {true, textProblem(v)},
	})
	if problem != "" {
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
	k := listOf(field, maxItems, "items", nil, func(v value, before []string) (string, string) {
		return v.text, argumentProblem(v, len(before) == 0)
	})
	set := k.set
	k.set = func(c *Config, v value) *invalidValue {
		switch {
		case v.list && len(v.items) == 0 && v.unsupported == "":
			return v.invalid("is empty; write the program")
		case v.list || v.unsupported != "" && !v.block:
			return set(c, v)
		}
		v.unsupported = "" // in a block of text every reader sees a text
		v.quoted = v.quoted || v.block
		invalid := v.invalid(argumentProblem(v, true))
		if invalid == nil {
			*field(c) = []string{"sh", "-c", v.text}
		}
		return invalid
	}
	k.show = func(c *Config) string { return showCommand(*field(c)) }
	k.allows = "a list of the program and its arguments such as " + example + ", or a text for sh -c"
	k.schema, k.noVariable = `{"anyOf": [{"type": "string", "minLength": 1}, `+
		`{"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"}}]}`, true
	return k
}

func showCommand(line []string) string {
	switch len(line) {
	case 0:
		return "none"
	case 1:
		return shown(line[0], maxShown)
	case 2:
		return shown(line[0], maxShown) + " and 1 argument"
	}
	return fmt.Sprintf("%s and %d arguments", shown(line[0], maxShown), len(line)-1)
}

func argumentProblem(v value, isFirst bool) string {
	return first([]when{
		{isFirst && v.unsupported == "" && !v.list && strings.TrimSpace(v.text) == "", "is empty; write the program"},
		{true, textProblem(v)},
		{strings.ContainsRune(v.text, 0), "has the control character U+0000; remove it"},
	})
}

// toolCalls is the kind of the limits of single tools, by their names. A tool with a zero has none.
func toolCalls(field func(*Config) *map[string]int64) kind {
	k := ofItems(field, func(v value) (map[string]int64, *invalidValue) {
		problem := first([]when{
			{!v.mapping, v.unsupported},
			{!v.mapping && (v.text != "0" || v.quoted), "is not a mapping of names and numbers"},
			{len(v.entries) > maxItems, "has more than 1000 tools"},
		})
		if problem != "" {
			return nil, v.invalid(problem)
		}
		tools, seen := map[string]int64{}, map[string]bool{}
		for _, e := range v.entries {
			problem, of := e.nameProblem(seen), int64(0)
			if problem == "" && !e.absent {
				of, problem = parseQuantity(e.value)
			}
			if problem != "" {
				return nil, e.invalid(problem)
			}
			if seen[e.key.text] = true; of != 0 {
				tools[e.key.text] = of
			}
		}
		if len(tools) == 0 {
			return nil, nil
		}
		return tools, nil
	}, func(tools map[string]int64) string {
		var items []string
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			items = append(items, fmt.Sprintf("%s=%v", name, tools[name]))
		}
		return shorten(cmp.Or(strings.Join(items, ", "), "off"), maxShown)
	}, func(tools map[string]int64) bool { return len(tools) == 0 })
	k.split = func(text string) value { return fromPairs(text, "is not a name, an equals sign and a number") }
	k.allows = "the names of tools with whole numbers of calls, in a file such as {bash: 100, search: 20}, " +
		"in the environment such as bash=100,search=20, or 0 for no limit"
	k.schema = `{"anyOf": [{"const": 0}, {"type": "object", "additionalProperties": ` +
		`{"anyOf": [{"type": "null"}, ` + wholeSchema + `]}}]}`
	return k
}

func (e entry) nameProblem(seen map[string]bool) string {
	name := e.key.text
	unclear := cmp.Or(textProblem(e.key), unseenProblem(name))
	return first([]when{
		{true, e.key.unsupported},
		{e.key.merge, "is a merge key; write the names themselves"},
		{name == "", "has an empty name"},
		{seen[name], "is a second value; write one"},
		{utf8.RuneCountInString(name) > event.MaxAggregateID,
			fmt.Sprintf("has a name of more than %d characters", event.MaxAggregateID)},
		{unclear != "", "has a name that " + unclear},
	})
}
