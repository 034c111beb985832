package looper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/looper"
	"github.com/seed62658d38/watchdog/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// play gives the looper a turn for each letter, and has the host take what it was asked at each '!'. For a turn that
// is a trip of another loop it returns 'A', of the same loop 'a', and '.' for no trip.
func play(l *looper.Looper, turns string) string {
	var found strings.Builder
	for _, letter := range turns {
		if letter == '!' {
			l.Delivered()
			found.WriteByte('!')
			continue
		}
		one := loop.Step{Tool: "read", Class: loop.Look, Input: []byte(string(letter)), Outcome: []byte("none")}
		if letter == 'S' {
			one = loop.Step{Tool: "sleep", Class: loop.Wait}
		}
		switch _, trips, another := l.Step([]loop.Step{one}); {
		case another:
			found.WriteByte('A')
		case trips:
			found.WriteByte('a')
		default:
			found.WriteByte('.')
		}
	}
	return found.String()
}

// TestStep protects what is a trip: what was found, once, until the host has taken that it was asked.
func TestStep(t *testing.T) {
	waits := &loop.Config{Waits: loop.End}
	for _, c := range []struct {
		name        string
		config      *loop.Config
		turns, want string
	}{
		{"waits count for nothing", nil, "SSSSSSSSSSSSSSSSSSSS", "...................."},
		{"but where they end a run, after eight more", waits, "SSSSSSSSSSSSSSSSSSSS", ".........A.......aaa"},
		{"and count anew after something else", waits, "SSSSSSSSSSSaSSSSSSSSSSSSSSSSSSSS", ".........A...................aaa"},
		{"a loop is found once, however long it goes on", nil, "aaaaaaaa", "..A....."},
		{"what nobody takes is taken for told after 32 more turns", nil, strings.Repeat("a", 40),
			"..A" + strings.Repeat(".", 33) + "aaaa"},
		{"but counts anew after something else", nil, strings.Repeat("a", 20) + "b" + strings.Repeat("a", 20),
			"..A" + strings.Repeat(".", 38)},
		{"two rounds after it was taken the same loop is found again", nil, "aaa!aaa", "..A!.aa"},
		{"what was taken before it was asked counts for nothing", nil, "!aa!aaa", "!..!A.."},
		{"a second reader counts for nothing", nil, "aaa!a!aa", "..A!.!aa"},
		{"another loop begins again", nil, "aaa!bbb", "..A!..A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, play(looper.New(c.config, began), c.turns))
		})
	}
}

// TestDue protects when the state is recorded: once a minute, and at once if the host was asked or took that.
func TestDue(t *testing.T) {
	l := looper.New(nil, began)
	now := began
	due := func(after time.Duration) bool { now = now.Add(after); return l.Due(now) }
	require.False(t, due(time.Hour), "nothing is new")
	l.Take(now)
	play(l, "a")
	require.False(t, due(time.Minute-1))
	require.True(t, due(1))
	lost := l.Take(now)
	require.False(t, due(time.Hour))
	l.Lost(lost)
	require.True(t, due(0))
	l.Lost(l.Take(now))
	require.False(t, due(time.Minute-1), "what was lost is not tried again at once")
	play(l, "aa")
	require.True(t, due(0), "the host was asked")
	l.Take(now)
	l.Delivered()
	require.True(t, due(0), "the host has taken it")
	l.Take(now)
	l.Delivered()
	require.False(t, due(time.Hour), "it was taken before")
}

// TestPress protects that a run which is closed records what is new, and nothing else.
func TestPress(t *testing.T) {
	l := looper.New(nil, began)
	require.False(t, l.Press())
	require.False(t, l.Due(began))
	play(l, "a")
	require.False(t, l.Due(began))
	require.True(t, l.Press())
	require.True(t, l.Due(began))
	l.Take(began)
	require.False(t, l.Press())
}

// TestRestore protects that another process goes on where this one was.
func TestRestore(t *testing.T) {
	l := looper.New(nil, began)
	play(l, "aaa!a")
	other := looper.New(nil, began)
	require.NoError(t, other.Restore(l.State()))
	require.False(t, other.Due(began.Add(time.Hour)), "nothing is new")
	require.Equal(t, "a", play(other, "a"))
	damaged := l.Take(began)
	damaged[9]++
	require.ErrorIs(t, other.Restore(damaged), loop.ErrState)
	require.Equal(t, "a", play(other, "a"), "it remembers what it did")
}
