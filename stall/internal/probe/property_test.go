package probe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// A speller writes a value in one of the many ways that JSON allows.
type speller struct{ *rand.Rand }

func (s speller) spell(b *strings.Builder, value any) {
	s.space(b)
	defer s.space(b)
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		s.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		s.list(b, "{}", len(keys), func(i int) {
			s.text(b, keys[i])
			b.WriteString(":")
			s.spell(b, v[keys[i]])
		})
	case []any:
		s.list(b, "[]", len(v), func(i int) { s.spell(b, v[i]) })
	case string:
		s.text(b, v)
	case int:
		s.number(b, v)
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
}

func (s speller) list(b *strings.Builder, brackets string, n int, item func(int)) {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		item(i)
	}
	b.WriteByte(brackets[1])
}

func (s speller) text(b *strings.Builder, text string) {
	b.WriteString(`"`)
	for _, r := range text {
		if s.IntN(3) == 0 || r == '"' || r == '\\' || r < ' ' {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, `\u%04x`, unit)
			}
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteString(`"`)
}

func (s speller) number(b *strings.Builder, n int) {
	switch k := s.IntN(4); {
	case k == 0 || n == 0:
		fmt.Fprintf(b, "%d", n)
	case k == 1:
		fmt.Fprintf(b, "%d.%s", n, strings.Repeat("0", 1+s.IntN(3)))
	case k == 2:
		fmt.Fprintf(b, "%d000E-3", n)
	default:
		sign := strings.Repeat("-", min(1, max(0, -n)))
		fmt.Fprintf(b, "%s%d.%02de+%02d", sign, max(n, -n)/100, max(n, -n)%100, 2)
	}
}

func (s speller) space(b *strings.Builder) {
	b.WriteString([]string{"", "", " ", "\n", "\t\r"}[s.IntN(5)])
}

// value returns a random value that is at most depth deep.
func (s speller) value(depth int) any {
	switch s.IntN(3 + 4*min(depth, 1)) {
	case 0:
		return s.IntN(2000) - 1000
	case 1:
		return s.word()
	case 2:
		return []any{nil, true, false}[s.IntN(3)]
	case 3, 4:
		list := []any{}
		for range s.IntN(4) {
			list = append(list, s.value(depth-1))
		}
		return list
	default:
		return s.object(depth)
	}
}

func (s speller) object(depth int) map[string]any {
	object := map[string]any{}
	for range 1 + s.IntN(4) {
		object["x"+s.word()] = s.value(depth - 1) // no known field begins with x
	}
	return object
}

func (s speller) word() string {
	var b strings.Builder
	for range s.IntN(4) {
		b.WriteRune([]rune("ab1:{}[]#;\"\\\né\u2028😀")[s.IntN(16)])
	}
	return b.String()
}

func (s speller) digest(t *testing.T, value any) string {
	t.Helper()
	var b strings.Builder
	s.spell(&b, value)
	require.True(t, json.Valid([]byte(b.String())), "the test is wrong: %s", b.String())
	return digest(t, b.String())
}

// leaves returns a function for each value in the tree that contains no other value. The function replaces the value
// with the result of change, or puts it back.
func leaves(tree any) []func(change func(any) any) {
	var found []func(func(any) any)
	visit := func(inner any, set func(any)) {
		if deeper := leaves(inner); deeper != nil {
			found = append(found, deeper...)
			return
		}
		found = append(found, func(change func(any) any) { set(change(inner)) })
	}
	switch v := tree.(type) {
	case map[string]any:
		for key, inner := range v {
			visit(inner, func(other any) { v[key] = other })
		}
	case []any:
		for i, inner := range v {
			visit(inner, func(other any) { v[i] = other })
		}
	}
	return found
}

// another returns a value that differs from the given one.
func another(value any) any {
	switch v := value.(type) {
	case int:
		return v + 1
	case string:
		return v + " "
	case bool:
		return !v
	case nil:
		return 0
	default:
		return "other"
	}
}

// TestDigestProperty checks that a digest depends on a change at any depth, and not on the spelling.
func TestDigestProperty(t *testing.T) {
	changed := 0
	for seed := range uint64(300) {
		s := speller{rand.New(rand.NewPCG(seed, 64))}
		tree := s.object(6)
		before := s.digest(t, tree)
		require.Equal(t, before, s.digest(t, tree), "seed %d: spelled in another way", seed)
		for _, leaf := range leaves(tree) {
			leaf(another)
			require.NotEqual(t, before, s.digest(t, tree), "seed %d: %v", seed, tree)
			leaf(func(value any) any { return value })
			changed++
		}
		require.Equal(t, before, s.digest(t, tree), "seed %d: changed back", seed)
	}
	require.Greater(t, changed, 2000)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":{"b":[1,1.0,-0,1e0,1E+400,null,true]},"a\u0041":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`,
		nested(64), nested(65), `{"class":"terminal","digest":"d","fingerprints":["a/b:c"],"reasons":["r"],"summary":"s"}`,
		`{"class":1}`, `{"fingerprints":["a b"]}`, `{"a":01}`, "{\"\xff\":1}",
	} {
		for _, at := range []uint16{0, 3, 9, 1000} {
			f.Add([]byte(seed), at)
		}
	}
	f.Fuzz(func(t *testing.T, output []byte, at uint16) {
		checkOutput(t, output)
		at = min(at, uint16(min(len(output), 1<<16-1)))
		planted := slices.Concat(output[:at], []byte(canary), output[at:])
		if _, err := probe.Parse(planted); err != nil {
			require.NotContains(t, err.Error(), letter)
		}
	})
}

// checkOutput checks that an accepted output is JSON and has the same digest in another spelling.
func checkOutput(t *testing.T, output []byte) {
	t.Helper()
	seen, err := probe.Parse(output)
	if err != nil {
		require.Zero(t, seen)
		return
	}
	require.True(t, json.Valid(output))
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(output))
	d.UseNumber()
	require.NoError(t, d.Decode(&object))
	var b strings.Builder
	speller{rand.New(rand.NewPCG(1, uint64(len(output))))}.spell(&b, object)
	if b.Len() > probe.MaxOutput {
		return
	}
	again, err := probe.Parse([]byte(b.String()))
	require.NoError(t, err)
	require.Equal(t, seen, again)
}
