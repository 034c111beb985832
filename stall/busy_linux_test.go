package stall_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestHungOnBusyMachine checks that what hangs ends within a limit and a half while eight processes want a processor
// each.
func TestHungOnBusyMachine(t *testing.T) {
	racing.LongOnly(t)
	for range 8 {
		cmd := command(t, "spin")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		})
	}
	const limit = 4 * time.Second
	for name, hang := range map[string]func(*testing.T, time.Duration){
		"command": hungCommand, "run": hungRun, "stream": deadStream,
	} {
		parallel(t, name, func(t *testing.T) {
			var late []time.Duration
			for range 10 {
				began := time.Now()
				hang(t, limit)
				late = append(late, (time.Since(began) - limit).Round(time.Millisecond))
			}
			t.Logf("late by %v", late)
			for _, one := range late {
				require.Less(t, one, limit/2)
			}
		})
	}
}

func hungCommand(t *testing.T, limit time.Duration) {
	f := newFixture(t)
	f.cfg.NoOutput = limit
	_, stalled := f.stalled(exec.Command("sleep", "3600"))
	require.Equal(t, stall.KindNoOutput, stalled.Trip.Kind)
}

func hungRun(t *testing.T, limit time.Duration) {
	wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Idle: limit}, Logger: discard,
	})
	require.NoError(t, err)
	<-wd.Context().Done()
	require.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded)
	require.NoError(t, wd.Close())
}

func deadStream(t *testing.T, limit time.Duration) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	base := server.Client().Transport
	client := &http.Client{Transport: &watchdoghttp.Transport{Base: base, Idle: limit}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, watchdoghttp.ErrSilent)
}

// spin wants a processor.
func spin(string) error {
	runtime.GOMAXPROCS(1)
	for {
		runtime.KeepAlive(nil)
	}
}
