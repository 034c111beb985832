package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// flag is the kind of a setting that is true or false. One that is true by default has a field of the opposite meaning.
func flag(field func(*Config) *bool, byDefault bool) kind {
	parse := func(v value) (bool, string) {
		return (v.text == "true") != byDefault, first([]when{
			{true, wordProblem(v)}, {v.quoted, "is quoted; write it without quotes"},
			{v.text != "true" && v.text != "false", "is neither true nor false"},
		})
	}
	show := func(b bool) string { return strconv.FormatBool(b != byDefault) }
	k := of(field, parse, show, func(b bool) bool { return !b && !byDefault })
	k.allows, k.schema = "true or false", `{"type": "boolean"}`
	return k
}

// choice is the kind of a setting with one of a few words. Fallback is the default, off the word for off, if any.
func choice[T ~string](field func(*Config) *T, what string, fallback, off T, known ...T) kind {
	parse := func(v value) (T, string) {
		return T(v.text), cmp.Or(wordProblem(v), unknownWord(v.text, what, words(known)))
	}
	show := func(word T) string { return string(cmp.Or(word, fallback)) }
	k := of(field, parse, show, func(word T) bool { return cmp.Or(word, fallback) == off || word == off })
	last := len(known) - 1
	k.allows = strings.Join(words(known[:last]), ", ") + " or " + string(known[last])
	k.schema = fmt.Sprintf(`{"enum": ["%s"]}`, strings.Join(words(known), `", "`))
	return k
}

const maxCount = 1_000_000

// count is the kind of a number of times. None is what 0 means, where it is valid.
func count[T int | int64](field func(*Config) *T, fallback, least T, none string) kind {
	parse := func(v value) (T, string) {
		number, err := strconv.Atoi(v.text)
		wrong := err != nil || number < int(least) || number > maxCount
		return T(number), first([]when{{true, wholeProblem(v)}, {wrong, "is out of range"}})
	}
	show := func(n T) string { return strconv.FormatInt(int64(cmp.Or(n, fallback)), 10) }
	k := of(field, parse, show, func(T) bool { return false })
	k.allows = fmt.Sprintf("a whole number up to %d, or 0 for %s", maxCount, none)
	if least > 0 {
		k.allows = fmt.Sprintf("a whole number from %d to %d", least, maxCount)
	}
	k.schema = fmt.Sprintf(`{"type": "integer", "minimum": %d, "maximum": %d}`, least, maxCount)
	return k
}

const wholeSchema = `{"type": "integer", "minimum": 0}`

// quantity is the kind of a number of tokens or calls. 0 is none.
func quantity(field func(*Config) *int64) kind {
	show := func(n int64) string {
		if !limited(n) {
			return "off"
		}
		return strconv.FormatInt(n, 10)
	}
	k := of(field, parseQuantity, show, func(n int64) bool { return !limited(n) })
	k.allows, k.schema = "a whole number such as 100000, or 0 for no limit", wholeSchema
	return k
}

func limited(n int64) bool { return n != 0 && n != watchdog.NoLimit }

// fieldOf returns the field of a struct that a count or a limit has there, or nil if it has none of this type.
func fieldOf[T any](of any, name string) *T {
	field := reflect.ValueOf(of).Elem().FieldByName(name)
	if !field.IsValid() {
		return nil
	}
	value, _ := reflect.TypeAssert[*T](field.Addr())
	return value
}

func (c *Config) limitsSpend() bool {
	s := &c.Budget.Spend
	return len(s.Tools) > 0 || limited(s.Cost.Micros) ||
		slices.ContainsFunc(counts, func(of counted) bool {
			limit := fieldOf[int64](s, of.field)
			return limit != nil && limited(*limit)
		})
}

func parseQuantity(v value) (n int64, problem string) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	tooLarge := err != nil || n == math.MaxInt64 // which means no limit in Go code
	return n, first([]when{{true, wholeProblem(v)}, {tooLarge, "is too large; at most 9223372036854775806 fits"}})
}

// money is the kind of an amount of money with its currency, exact to the micro-unit. 0 is none, and needs no currency.
func money(micros func(*Config) *int64, currency func(*Config) *string) kind {
	return kind{
		allows: "an amount of money with its currency such as 5.00 EUR, or 0 for no limit",
		set: func(c *Config, v value) *invalidValue {
			n, in, problem := parseMoney(v)
			if problem == "" {
				*micros(c), *currency(c) = n, in
			}
			return v.invalid(problem)
		},
		show: func(c *Config) string {
			n := *micros(c)
			if !limited(n) {
				return "off"
			}
			decimals := fmt.Sprintf("%06d", n%1e6)
			decimals = decimals[:2] + strings.TrimRight(decimals[2:], "0")
			return strings.TrimSpace(fmt.Sprintf("%d.%s %s", n/1e6, decimals, *currency(c)))
		},
		off:     func(c *Config) bool { return !limited(*micros(c)) },
		disable: func(c *Config) { *micros(c) = 0 },
		schema: `{"anyOf": [{"const": 0}, {"type": "string", ` +
			`"pattern": "^(0([.]0{1,6})?|(0|[1-9][0-9]*)([.][0-9]{1,6})? [A-Z][A-Z0-9]{2,15})$"}]}`,
	}
}

// moneyForm has groups for the number and the currency.
var moneyForm = formOf(`^((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(?: ([A-Z][A-Z0-9]{2,15}))?$`)

func parseMoney(v value) (micros int64, currency, problem string) {
	text, negative := strings.CutPrefix(v.text, "-")
	parts := append(moneyForm().FindStringSubmatch(text), "", "", "")
	isMoney := parts[0] != ""
	micros, finer, tooLarge := parseFixed(parts[1], 6)
	if micros != 0 {
		currency = parts[2]
	}
	return micros, currency, first([]when{
		{true, wordProblem(v)}, {negative && isMoney, "is negative"},
		{!isMoney, "is not a plain decimal number, a space and a currency in capitals"},
		{finer, "is finer than a millionth; write at most 6 decimals"},
		{tooLarge, "is too large; at most 9223372036854 fits"},
		{micros != 0 && currency == "", "has no currency; write one, such as " + v.text + " EUR"},
	})
}

// text is the kind of a text for people or for the host. Absent is shown of one that is not set.
func text(field func(*Config) *string, absent string, problem func(text string) string) kind {
	parse := func(v value) (string, string) {
		return v.text, first([]when{
			{true, textProblem(v)}, {strings.TrimSpace(v.text) == "", "is empty"}, {true, problem(v.text)},
		})
	}
	show := func(text string) string { return shown(cmp.Or(text, absent), maxShown) }
	k := of(field, parse, show, func(text string) bool { return text == "" })
	k.schema = `{"type": "string", "minLength": 1}`
	return k
}

func label(field func(*Config) *string, absent, example string) kind {
	const most = 255 // of the name of a machine
	k := text(field, absent, func(text string) string {
		return first([]when{
			{true, unseenProblem(text)}, {utf8.RuneCountInString(text) > most, "is longer than 255 characters"},
		})
	})
	k.allows = "a name of at most 255 characters such as " + example
	return k
}

var (
	classForm  = formOf(`^[A-Za-z0-9._-]{1,100}$`)
	prefixForm = formOf(`^[A-Za-z0-9._:/@=+-]+$`)
)

// lineProblem returns what is wrong with a text that only the host reads.
func lineProblem(text string) string {
	const most = 4096 // longer than any path of a file
	return first([]when{
		{strings.ContainsAny(text, "\n\r\x00"), "is not on one line"},
		{len(text) > most, "is longer than 4096 characters"},
	})
}

func classProblem(text string) string {
	return first([]when{{true, lineProblem(text)}, {!classForm().MatchString(text), "is not one name"}})
}

// prefixProblem returns what is wrong with the prefix of a fingerprint, which is a word of a log and a part of a path.
func prefixProblem(text string) string {
	const most = 100 // keeps fingerprints short
	return first([]when{
		{len(text) > most, "is longer than 100 characters"},
		{!prefixForm().MatchString(text), "has a character that fingerprints must not have"},
		{strings.Trim(text, "/") != text, "has a slash at its beginning or end; the one after it is added"},
	})
}

// prefixes is the kind of a prefix that may be written as a list of its parts.
func prefixes(one kind) kind {
	many := one
	many.set = func(c *Config, v value) *invalidValue {
		if !v.list {
			return one.set(c, v)
		}
		joined := value{quoted: true, line: v.line, show: v.show}
		for i, item := range v.items {
			if invalid := one.set(c, item); invalid != nil {
				return invalid
			}
			joined.text += strings.Repeat("/", min(i, 1)) + item.text
		}
		return one.set(c, joined)
	}
	many.schema = `{"anyOf": [` + one.schema + `, {"type": "array", "items": ` + one.schema + `}]}`
	return many
}

func signal(field func(*Config) *syscall.Signal) kind {
	parse := func(v value) (syscall.Signal, string) {
		s, err := stall.ParseSignal(v.text)
		var problem string
		if err != nil {
			problem = errors.Unwrap(err).Error() // without the value, which the error of the key has
		}
		return s, first([]when{{true, wordProblem(v)}, {true, problem}})
	}
	show := func(s syscall.Signal) string { return stall.SignalName(cmp.Or(s, syscall.SIGINT)) }
	k := of(field, parse, show, func(s syscall.Signal) bool { return cmp.Or(s, syscall.SIGINT) == syscall.SIGINT })
	k.schema = `{"type": ["string", "integer"]}`
	return k
}

// A form is what a text must look like. It is compiled when it is used first, because every program that imports the
// package would wait for all of them as it starts.
type form func() *regexp.Regexp

func formOf(pattern string) form {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// wordProblem returns why a value is not a single text.
func wordProblem(v value) string {
	return first([]when{{true, v.unsupported}, {v.list, "is a list"}, {v.text == "", "is empty"}})
}

var (
	decimal    = formOf(`^[0-9]+(\.[0-9]+)?$`)
	numberLike = formOf(`^[-+]?\.?[0-9]`) // the start of what some reader of YAML takes for a number, a time or a date
	booleans   = []string{"true", "false", "yes", "no", "on", "off"}
	infinities = []string{".inf", "inf", "infinity", ".nan", "nan"}
	// ambiguousWords are the words that some readers of YAML take for a boolean or for null.
	ambiguousWords = append([]string{"y", "n", "null"}, booleans...)
)

// numberProblem returns why a value is not a number: digits, and perhaps a point and digits. All versions of YAML, JSON
// and people agree on these numbers; they disagree on hexadecimal and octal numbers, exponents, underscores and signs.
func numberProblem(v value) string {
	unsigned := strings.TrimLeft(v.text, "+-")
	word := strings.ToLower(unsigned)
	return first([]when{
		{v.quoted && v.unsupported == "", "is quoted; write the number without quotes"},
		{true, wordProblem(v)},
		{slices.Contains(booleans, word), "is a boolean"},
		{slices.Contains(infinities, word), "is not a finite number"},
		{!decimal().MatchString(unsigned), "is not a plain decimal number"},
		{strings.HasPrefix(v.text, "-"), "is negative"},
		{unsigned != v.text, "has a sign; write the digits only"},
		{len(v.text) > 1 && v.text[0] == '0' && v.text[1] != '.',
			"starts with a 0, which some read as octal; write the number without it"},
	})
}

// parseFixed returns a plain decimal number in units of so many decimals. The largest one means no limit in Go code.
func parseFixed(text string, digits int) (n int64, finer, tooLarge bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", max(digits-len(decimals), 0)), 10, 64)
	return n, len(decimals) > digits, err != nil || n == math.MaxInt64
}

func wholeProblem(v value) string {
	return first([]when{{true, numberProblem(v)}, {strings.Contains(v.text, "."), "is not a whole number"}})
}

// textProblem returns why a value is not text to every reader of YAML. A variable is always text.
func textProblem(v value) string {
	if v.text == "" && v.quoted {
		return ""
	}
	word := strings.ToLower(v.text)
	ambiguous := word == "~" || numberLike().MatchString(word) || slices.Contains(ambiguousWords, word) ||
		slices.Contains(infinities, strings.TrimLeft(word, "+-"))
	return first([]when{
		{true, wordProblem(v)}, {v.line > 0 && !v.quoted && ambiguous, "is not a text to every reader; write it in quotes"},
	})
}

// unseenProblem returns what nobody would see of a text.
func unseenProblem(text string) string {
	return first([]when{
		{strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "has a character that cannot be seen"},
		{strings.TrimSpace(text) != text, "has white space around it"},
	})
}
