package alike_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/alike"
)

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
