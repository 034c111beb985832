package watchdogeino_test

import (
	"context"
	"testing"
	"time"

	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// TestConversation checks that nobody is silent while a person thinks, that a turn which hangs ends without the
// conversation, and that what the turns use counts in it.
func TestConversation(t *testing.T) {
	eachWay(t, func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Requests: 10}})
		look := invokable{"look", func(ctx context.Context, _ string) (string, error) {
			assert.Equal(t, wd.ID()+"/turn", watchdog.FromContext(ctx).Parent())
			return "nothing", nil
		}}
		hang := func(ctx context.Context, _ func(*schema.Message)) error { return until(ctx) }
		m := scripted(says("one"), calls("look"), says("two"), hang, says("four"))
		agent := newAgent(t, watchdogeino.New(limits), m, look)
		for _, says := range []string{"one", "two", "", "four"} {
			turn, err := wd.Layer("turn", watchdog.Budget{Idle: time.Minute})
			require.NoError(t, err)
			got, err := ask(turn.Context(), agent, streaming)
			if says == "" {
				require.ErrorIs(t, err, watchdog.IdleExceeded)
			} else {
				require.NoError(t, err)
				assert.Equal(t, says, got)
			}
			require.NoError(t, turn.Close())
			time.Sleep(10 * time.Hour) // the person thinks
		}
		assert.EqualValues(t, 5, wd.Usage()[0].Used)
		assert.Nil(t, wd.Stop())
	})
}
