package gather_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/gather"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 5 * time.Millisecond

// A passed is what was handed on together, and when.
type passed struct {
	answers string
	after   time.Duration
}

// TestGroup adds each letter as an answer when it comes, in milliseconds, to a group of four.
func TestGroup(t *testing.T) {
	for _, c := range []struct {
		name string
		when []time.Duration // of a, b, c and d
		want []passed
	}{
		{"all at once", []time.Duration{1, 1, 1, 1}, []passed{{"abcd", 1}}},
		{"all before the patience is over", []time.Duration{1, 2, 3, 4}, []passed{{"abcd", 4}}},
		{"one takes its time", []time.Duration{1, 2, 3, 99}, []passed{{"abc", 6}, {"d", 99}}},
		{"each takes its time", []time.Duration{1, 11, 21, 31}, []passed{{"a", 6}, {"b", 16}, {"c", 26}, {"d", 31}}},
		{"the patience begins again", []time.Duration{1, 8, 12, 12}, []passed{{"a", 6}, {"bcd", 12}}},
		{"one comes between", []time.Duration{1, 3, 7, 99}, []passed{{"ab", 6}, {"c", 12}, {"d", 99}}},
		{"one never comes", []time.Duration{1, 1, 1}, []passed{{"abc", 6}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				var got []passed
				g := gather.New(4, patience, func(answers []rune) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, passed{string(answers), time.Since(began) / time.Millisecond})
				})
				for i, when := range c.when {
					time.Sleep(when*time.Millisecond - time.Since(began))
					g.Add('a' + rune(i))
				}
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, c.want, got)
			})
		})
	}
}
