package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestHostileCounts has numbers of another program in a row: nothing seems left that is not.
func TestHostileCounts(t *testing.T) {
	const most = 1<<63 - 1
	for _, spent := range []session.Spent{
		{Used: most, Admitted: most, Allowed: 100}, {Used: most, Admitted: 102, Allowed: 100}, {Used: 101, Allowed: 100}, {Used: 1, Allowed: -most},
		{Used: most, Admitted: most, Allowed: most, Reserve: -most}, {Allowed: 0, Reserve: 5, WarnAt: []float64{1e300, -1e300}},
	} {
		inBubble(t, func(f *fixture) {
			spent.Limit = "tokens"
			f.begin("s-1", "h", 0, session.State{Spent: []session.Spent{spent}})
			text := f.shown("")
			assert.Contains(t, text, `class="left" width="0"`, "%+v", spent)
			assert.Contains(t, text, "limit spent")
			assert.NotContains(t, text, "NaN")
		})
	}
}

// TestHugePass protects the sweeper, which waits for its log: a pass that acted on very many runs is kept as soon as any.
func TestHugePass(t *testing.T) {
	cases := make([]sweep.Case, 200_000)
	for i := range cases {
		cases[i].Session.RunID = fmt.Sprint("s-", i)
	}
	log := &page.PassLog{}
	began := time.Now()
	log.Add(sweep.Pass{Cases: cases})
	require.Less(t, time.Since(began), 5*time.Second)
	inBubble(t, func(f *fixture) {
		f.cfg.PassLog = log
		text := f.shown("?view=sweeper")
		require.Equal(t, 200, strings.Count(text, `<a href="?run=s-`))
		require.Less(t, strings.Index(text, "s-199999<"), strings.Index(text, "s-199800<"), "the latest first")
	})
}
