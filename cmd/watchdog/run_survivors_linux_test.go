package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
)

// TestRunSurvivors checks that no process of a command survives the kill of this program, or the command's own exit,
// however it tries to escape. In proctree and stall each tree ends in every way.
func TestRunSurvivors(t *testing.T) {
	t.Parallel()
	for _, shape := range escape.Scenarios() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			shape := shape.In(t.TempDir())
			t.Cleanup(shape.End)
			path, args, _ := shape.Command()
			graces := []string{"--grace-int", "100ms", "--grace-term", "100ms", "--", path}
			cmd := newFixture(t).program(append(graces, args[1:]...)...)
			if shape.LeaderExits {
				finish(t, cmd).must(t, 0)
				assert.Empty(t, shape.Survivors())
				return
			}
			require.NoError(t, cmd.Start())
			require.NoError(t, shape.Ready(patience))
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
			none := 0      // how often in a row, because a process that is just starting is invisible for a moment
			eventually(t, "all of it ends", func() bool {
				if none++; len(shape.Survivors()) > 0 {
					none = 0
				}
				return none == 5
			})
		})
	}
}
