//go:build linux

package soak_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSchedule(t *testing.T) {
	draw := func(g group, seed uint64, length time.Duration) []fault {
		return g.draw(rand.New(rand.NewPCG(seed, 0)), length)
	}
	for _, g := range groups {
		for seed := range uint64(20) {
			short, long := draw(g, seed, 0), draw(g, seed, time.Minute)
			assert.Equal(t, short, draw(g, seed, 0), "a seed gives one schedule")
			assert.Greater(t, len(long), len(short))
			checkApart(t, long)
			times := map[string]int{}
			for _, f := range short {
				times[f.name]++
			}
			for _, k := range g.kinds {
				assert.GreaterOrEqual(t, times[k.name], k.count, "%s comes in the shortest soak", k.name)
			}
		}
	}
}

// checkApart checks that each target has one fault at a time.
func checkApart(t *testing.T, faults []fault) {
	t.Helper()
	over := map[int]time.Duration{}
	for _, f := range faults {
		assert.Greater(t, f.at, over[f.target], "%v comes after the one before", f)
		over[f.target] = f.end()
	}
}

// A host that stays live is never away for more than two promises, and a dead one for more than three.
func TestScheduleOfHosts(t *testing.T) {
	for _, k := range hostKinds {
		switch k.name {
		case killed, delayed, halfOpen:
		default:
			assert.True(t, k.most <= 2*promise || k.least > death, "%+v leaves open whether the host is live", k)
		}
	}
	assert.Greater(t, threshold, death, "a host that is away and live is not silent for too long")
}
