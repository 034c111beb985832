package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestAllowedSilence(t *testing.T) {
	const never, wait, retry, end = verdict.Never, verdict.DirectWait, verdict.DirectRetry, verdict.DirectCancel
	asks := func(all ...verdict.Directive) verdict.Ladders { return verdict.Ladders{verdict.Idle: all} }
	for name, c := range map[string]struct {
		limits verdict.Limits
		want   time.Duration
	}{
		"no limit":                   {verdict.Limits{Idle: never, NoProgress: never}, 0},
		"idle":                       {verdict.Limits{Idle: 20, NoProgress: never}, 21},
		"no progress":                {verdict.Limits{Idle: never, NoProgress: 30}, 31},
		"the longer one":             {verdict.Limits{Idle: 20, NoProgress: 30}, 31},
		"two rungs and the cancel":   {verdict.Limits{Idle: 20, NoProgress: 30, Ladders: asks(retry, retry)}, 63},
		"a cancel that is written":   {verdict.Limits{Idle: 20, NoProgress: never, Ladders: asks(wait, end)}, 42},
		"a ladder that never ends":   {verdict.Limits{Idle: 20, NoProgress: never, Ladders: asks(retry, wait)}, never},
		"another limit that ends it": {verdict.Limits{Idle: 20, NoProgress: 30, Ladders: asks(wait)}, 31},
		"a ladder without a limit":   {verdict.Limits{Idle: never, NoProgress: never, Ladders: asks(wait)}, 0},
		"too long":                   {verdict.Limits{Idle: never / 2, NoProgress: never, Ladders: asks(retry, retry)}, never},
		"a longer wait for a first sign": {
			verdict.Limits{Idle: 20, NoProgress: never, FromFirstSign: true, FirstSign: 40}, 41,
		},
		"no limit of the wait for a first sign": {
			verdict.Limits{Idle: 20, NoProgress: never, FromFirstSign: true, FirstSign: never}, 21,
		},
	} {
		assert.Equal(t, c.want, verdict.AllowedSilence(&c.limits, 1), name)
	}
}

func TestSessionThreshold(t *testing.T) {
	for _, c := range []struct{ own, swept, allowance, want time.Duration }{
		{0, 5, 0, 5}, {3, 5, 0, 3}, {8, 5, 0, 8}, {0, 5, 20, 20}, {0, 5, 2, 5}, {9, 5, 20, 20}, {verdict.Never, 5, 0, verdict.Never},
	} {
		assert.Equal(t, c.want, verdict.SessionThreshold(c.own, c.swept, c.allowance), "%+v", c)
	}
}
