package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// TestLooks protects a living process: its lease expires only after looks at every promise, for three promises, that
// all succeeded in time and found the same beat.
func TestLooks(t *testing.T) {
	const second, promise = time.Second, 10 * time.Second
	look := func(at time.Duration) verdict.Look {
		return verdict.Look{Began: at, Ended: at, Sure: true, Beat: 1}
	}
	with := func(l verdict.Look, change func(*verdict.Look)) verdict.Look {
		change(&l)
		return l
	}
	for name, test := range map[string]struct {
		looks   []verdict.Look
		expired bool
	}{
		"three promises":            {[]verdict.Look{look(0), look(promise), look(2 * promise), look(3 * promise)}, true},
		"a nanosecond less":         {[]verdict.Look{look(0), look(promise), look(2 * promise), look(3*promise - 1)}, false},
		"one look":                  {[]verdict.Look{look(3 * promise)}, false},
		"a look at twice a promise": {[]verdict.Look{look(0), look(2 * promise), look(4 * promise)}, true},
		"a gap of more": {
			[]verdict.Look{look(0), look(promise), look(3*promise + 1), look(4 * promise)}, false,
		},
		"a look that was not sure": {[]verdict.Look{
			look(0), look(promise), with(look(2*promise), func(l *verdict.Look) { l.Sure = false }), look(3 * promise),
		}, false},
		"the last one was not sure": {[]verdict.Look{
			look(0), look(promise), look(2 * promise), with(look(3*promise), func(l *verdict.Look) { l.Sure = false }),
		}, false},
		"another beat": {[]verdict.Look{
			look(0), look(promise), with(look(2*promise), func(l *verdict.Look) { l.Beat = 2 }),
			with(look(3*promise), func(l *verdict.Look) { l.Beat = 2 }),
		}, false},
		"a look that took a promise": {[]verdict.Look{
			look(0), with(look(promise), func(l *verdict.Look) { l.Ended += promise }), look(3 * promise),
		}, true},
		"a look that took longer": {[]verdict.Look{
			look(0), with(look(promise/2), func(l *verdict.Look) { l.Ended += promise + 1 }), look(3 * promise),
		}, false},
		"a last look that began too early": {[]verdict.Look{
			look(0), look(promise), look(2 * promise),
			with(look(3*promise-second), func(l *verdict.Look) { l.Ended += 2 * second }),
		}, false},
		"three promises after a failure": {[]verdict.Look{
			look(0), with(look(promise), func(l *verdict.Look) { l.Sure = false }),
			look(2 * promise), look(3 * promise), look(4 * promise), look(5 * promise),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var looks verdict.Looks
			expired := false
			for _, l := range test.looks {
				assert.False(t, expired, "no look follows")
				expired = looks.Add(promise, l)
			}
			assert.Equal(t, test.expired, expired)
		})
	}
}

func TestLooksLasted(t *testing.T) {
	var looks verdict.Looks
	for i := range 3 {
		at := time.Duration(5+2*i) * time.Second
		looks.Add(2*time.Second, verdict.Look{Began: at, Ended: at, Sure: true, Beat: 1})
	}
	assert.Equal(t, 5*time.Second, looks.Began())
	assert.Equal(t, 4*time.Second, looks.Lasted())
}

func TestFleetDied(t *testing.T) {
	for _, test := range []struct {
		dead, all     int
		renewed, died bool
	}{
		{1, 1, false, true}, {1, 100, false, true},
		{1, 2, true, false}, {2, 3, true, false}, {2, 6, true, false},
		{3, 9, true, true}, {3, 10, true, false}, {34, 100, true, true}, {33, 100, true, false},
	} {
		assert.Equal(t, test.died, verdict.FleetDied(test.dead, test.all, test.renewed), "%+v", test)
	}
}

func TestQuiet(t *testing.T) {
	assert.False(t, verdict.Quiet(10*time.Minute, time.Minute-1))
	assert.True(t, verdict.Quiet(10*time.Minute, time.Minute))
	assert.False(t, verdict.Quiet(time.Minute, 15*time.Second-1))
	assert.True(t, verdict.Quiet(time.Minute, 15*time.Second))
}
