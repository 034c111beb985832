package alike_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/alike"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// A deaf listener hears nothing.
type deaf struct{}

func (deaf) Reset()                     {}
func (deaf) Literal([]byte, string)     {}
func (deaf) Number(_, _ []byte)         {}
func (deaf) String(int, []byte, []byte) {}
func (deaf) Text([]byte)                {}
func (deaf) List(int)                   {}
func (deaf) Object([]byte)              {}

// A maker makes up values, with few different parts, so that many of them differ in where these are.
type maker struct{ random *rand.Rand }

func (m maker) of(list ...string) string { return list[m.random.IntN(len(list))] }

func (m maker) text() string {
	return m.of("", "a", "b", "ab", "aa", "1", "0", "null", "true", "a,b", "[]", "{}", `a":"b`, "\x00", "\n", "a\n", "\na", "\r\n",
		"é", "e\u0301", "😀", "\ufffd", "\u2028", `\`, `\\`, `\n`, `"`, "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaab", "aaaaaaaa\x00", "/", " ", "a ", "{\"a\":1}")
}

func (m maker) number() string {
	return m.of("0", "-0", "1", "-1", "1.0", "10", "1e1", "1E+1", "0.1", "1e-1", "100e-3", "12345678901234567890", "12345678901234567891",
		"9007199254740991", "9007199254740993", "-9007199254740993", "1.5", "15e-1", "2", "3", "11", "0.5", "-0.5")
}

func (m maker) value(depth int) any {
	switch n := m.random.IntN(9); {
	case n < 2 || depth == 0 && n > 5:
		return m.text()
	case n < 4:
		return json.Number(m.number())
	case n < 6:
		return []any{nil, true, false}[m.random.IntN(3)]
	case n < 7:
		list := make([]any, m.random.IntN(4))
		for i := range list {
			list[i] = m.value(depth - 1)
		}
		return list
	default:
		object := map[string]any{}
		for range m.random.IntN(4) {
			object[m.of("", "a", "b", "c", "ab", "0", "a\x00", "é", "x")] = m.value(depth - 1)
		}
		return object
	}
}

// spell writes a value in one of its spellings.
func (m maker) spell(to *strings.Builder, value any) {
	space := func() { to.WriteString(m.of("", "", "", " ", "\n\t", "\r ")) }
	space()
	switch value := value.(type) {
	case string:
		m.spellText(to, value)
	case json.Number:
		to.WriteString(string(value))
	case []any:
		to.WriteByte('[')
		for i, item := range value {
			if i > 0 {
				to.WriteByte(',')
			}
			m.spell(to, item)
		}
		space()
		to.WriteByte(']')
	case map[string]any:
		to.WriteByte('{')
		first := true
		for key, item := range value { // in any order
			if !first {
				to.WriteByte(',')
			}
			first = false
			space()
			m.spellText(to, key)
			space()
			to.WriteByte(':')
			m.spell(to, item)
		}
		space()
		to.WriteByte('}')
	default:
		text, _ := json.Marshal(value)
		to.Write(text)
	}
	space()
}

func (m maker) spellText(to *strings.Builder, text string) {
	if m.random.IntN(2) == 0 {
		var b bytes.Buffer
		_ = json.NewEncoder(&b).Encode(text)
		to.Write(bytes.TrimRight(b.Bytes(), "\n"))
		return
	}
	to.WriteByte('"')
	for _, r := range text {
		switch {
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(to, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < ' ' || r == '"' || r == '\\' || m.random.IntN(2) == 0:
			fmt.Fprintf(to, `\u%04x`, r)
		default:
			to.WriteRune(r)
		}
	}
	to.WriteByte('"')
}

// canonical is what a value is, by the standard library.
func canonical(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	require.NoError(t, d.Decode(&value), text)
	form, err := json.Marshal(exact(value))
	require.NoError(t, err)
	return string(form)
}

// exact has each number as a fraction.
func exact(value any) any {
	switch value := value.(type) {
	case json.Number:
		r, _ := new(big.Rat).SetString(string(value))
		return []any{"number", r.String()}
	case []any:
		all := []any{"list"}
		for _, item := range value {
			all = append(all, exact(item))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for key, item := range value {
			all[key] = exact(item)
		}
		return all
	}
	return value
}

// TestDigests protects that a digest is one of a value: any two values of many are the same if and only if what the
// standard library reads is.
func TestDigests(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(1, 27))}
	var r alike.Reader
	inputs, outcomes, digests := map[uint64]string{}, map[uint64]string{}, map[string][2]uint64{}
	for range racing.Rounds(30_000, 100*30_000) {
		var spelt strings.Builder
		m.spell(&spelt, m.value(3))
		text := spelt.String()
		form := canonical(t, text)
		if len(form) > 200 {
			continue
		}
		both := [2]uint64{r.Input([]byte(text), deaf{}), r.Outcome([]byte(text), deaf{})}
		if known, ok := digests[form]; ok {
			require.Equal(t, known, both, "the same: %q, %s", text, form)
			continue
		}
		digests[form] = both
		require.Empty(t, inputs[both[0]], "%q", text)
		require.Empty(t, outcomes[both[1]], "%q", text)
		inputs[both[0]], outcomes[both[1]] = form, form
	}
	t.Log(len(digests), "different values")
}

// TestTexts protects that texts which differ in anything but what is blurred are told apart.
func TestTexts(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(2, 27))}
	var r alike.Reader
	inputs, outcomes := map[uint64]string{}, map[uint64]string{}
	for range racing.Rounds(100_000, 100*100_000) {
		var text string
		for range m.random.IntN(6) {
			text += m.of("a", "b", "\n", "\r", "\x00", " ", "\xff", "\xfe", "é", "\t", "12", "3", "-", "/", "x", "aaaaaaaa", "bbbbbbbbbbbbbbbb", ":", "\\", "\"", "{")
		}
		if json.Valid([]byte(text)) {
			continue
		}
		input, outcome := r.Input([]byte(text), deaf{}), r.Outcome([]byte(text), deaf{})
		if other, ok := inputs[input]; ok {
			require.Equal(t, other, text)
		}
		if other, ok := outcomes[outcome]; ok {
			require.Equal(t, other, text)
		}
		inputs[input], outcomes[outcome] = text, text
	}
}

// TestSums protects what is added up, the members of an object and the calls of a turn: no two sets of few have one sum.
func TestSums(t *testing.T) {
	var r alike.Reader
	var parts []uint64
	for i := range 40 {
		parts = append(parts, alike.Mix(alike.Sum('k', fmt.Append(nil, "k", i%7)), r.Input(fmt.Append(nil, i/7), deaf{})))
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	seen := map[uint64]bool{}
	n := 0
	var add func(from, room int, sum uint64)
	add = func(from, room int, sum uint64) {
		require.False(t, seen[sum])
		seen[sum] = true
		n++
		for i := from; i < len(parts) && room > 0; i++ {
			add(i, room-1, sum+parts[i])
		}
	}
	add(0, racing.Rounds(3, 5), 0)
	t.Log(n, "sums")
}

// A record is what a Listener was told.
type record struct{ told []string }

func (r *record) Reset() { r.told = []string{"reset"} }
func (r *record) Literal(key []byte, is string) {
	r.told = append(r.told, fmt.Sprintf("%s:%s", key, is))
}
func (r *record) Number(key, literal []byte) {
	r.told = append(r.told, fmt.Sprintf("%s:%s", key, literal))
}
func (r *record) Text(text []byte)  { r.told = append(r.told, string(text)) }
func (r *record) List(step int)     { r.told = append(r.told, fmt.Sprint("list ", step)) }
func (r *record) Object(key []byte) { r.told = append(r.told, fmt.Sprintf("object %s", key)) }
func (r *record) String(depth int, key, text []byte) {
	r.told = append(r.told, fmt.Sprintf("%d %s:%s", depth, key, text))
}

// TestListener protects that what a text has is told where it stands, and nothing of what is left out.
func TestListener(t *testing.T) {
	var r alike.Reader
	r.Volatile.Add("id")
	var l record
	r.Outcome([]byte(`{"a":[1,"x",[]],"id":{"b":["y"]},"c\n":null}`), &l)
	require.Equal(t, []string{
		"object ", "list 1", "a:1", "2 a:x", "list 0", "list -1", "c\n:null",
	}, l.told)
	r.Outcome([]byte(`{"a":1} and more`), &l)
	require.Equal(t, []string{"reset", `{"a":1} and more`}, l.told)
}

// TestPlace protects reads of one thing at many places, and of another one at the same.
func TestPlace(t *testing.T) {
	place := func(input string) (uint64, bool) {
		var r alike.Reader
		r.Input([]byte(input), &record{})
		return r.Place()
	}
	one, placed := place(`{"path":"a","offset":1}`)
	other, _ := place(`{"offset":200,"path":"a"}`)
	require.True(t, placed)
	require.Equal(t, one, other)
	other, _ = place(`{"path":"b","offset":1}`)
	require.NotEqual(t, one, other)
	_, placed = place(`{"path":"a","lines":"1-20"}`)
	require.False(t, placed)
}

// TestFailure protects failures that are the same but for a number or for an echo of their input.
func TestFailure(t *testing.T) {
	failure := func(outcome string) (uint64, uint64) {
		var r alike.Reader
		r.Outcome([]byte(outcome), &record{})
		return r.Failure()
	}
	all, first := failure("Error: attempt 3 found no such text\nText: one")
	sameAll, sameFirst := failure("Error: attempt 17 found no such text\nText: one")
	require.Equal(t, all, sameAll)
	require.Equal(t, first, sameFirst)
	otherAll, sameFirst := failure("Error: attempt 3 found no such text\nText: two")
	require.NotEqual(t, all, otherAll)
	require.Equal(t, first, sameFirst)
	_, otherFirst := failure("Error: attempt 3 found no such file\nText: one")
	require.NotEqual(t, first, otherFirst)
}
