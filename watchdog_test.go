package watchdog_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestSmoke(t *testing.T) {
	c := clock.NewMock()
	c.Set(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	store := &watchdog.Memory{}
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: c.Now()}, watchdog.Config{Store: store, Clock: c, Logger: quietLog()})
	require.NoError(t, err)
	c.Add(4 * time.Hour)
	_, fired := wd.Fired()
	require.False(t, fired)
	c.Add(1)
	reason, fired := wd.Fired()
	require.True(t, fired)
	require.Equal(t, watchdog.WallClockExceeded, reason)
	require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
	events, _ := store.Read(t.Context(), watchdog.AggregateType, "s-1")
	for _, e := range events {
		b, _ := e.MarshalJSON()
		t.Log(string(b))
	}
	t.Log(context.Cause(wd.Context()))
	require.NoError(t, wd.Close())
}

func BenchmarkNewClose(b *testing.B) {
	b.ReportAllocs()
	store := &watchdog.Memory{}
	for b.Loop() {
		wd, _ := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{Store: store})
		wd.Close()
	}
}
func BenchmarkDeadline(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, c := context.WithDeadlineCause(context.Background(), time.Now().Add(time.Hour), nil)
		c()
	}
}
func BenchmarkFired(b *testing.B) {
	b.ReportAllocs()
	wd, _ := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{Store: &watchdog.Memory{}})
	defer wd.Close()
	for b.Loop() {
		wd.Fired()
	}
}
func BenchmarkSince(b *testing.B) {
	t := time.Now()
	for b.Loop() {
		_ = time.Since(t)
	}
}
