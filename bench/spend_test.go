package bench_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// naiveSpend is what hosts write: a mutex with a key and four counters. It checks and adds in one go, and forgets when
// it is killed.
type naiveSpend struct {
	mu                        sync.Mutex
	open                      map[string]bool
	in, out, cost, calls, max int64
}

func (n *naiveSpend) admit(key string, in, out, cost int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[key] || n.in+in > n.max || n.out+out > n.max || n.cost+cost > n.max || n.calls >= n.max {
		return false
	}
	n.in, n.out, n.cost, n.calls = n.in+in, n.out+out, n.cost+cost, n.calls+1
	return true
}

// BenchmarkAdmit is an admission and its settling: by hand, in a run of its own, and with layers around it.
func BenchmarkAdmit(b *testing.B) {
	most := watchdog.Amount{
		InputTokens: 100, OutputTokens: 10, Cost: watchdog.Money{Micros: 5, Currency: "EUR"}, Requests: 1,
	}
	limits := watchdog.Spend{
		InputTokens: 1 << 60, OutputTokens: 1 << 60, Requests: 1 << 60,
		Cost: watchdog.Money{Micros: 1 << 60, Currency: "EUR"},
	}
	b.Run("by=hand", func(b *testing.B) {
		n := &naiveSpend{open: map[string]bool{"": false}, max: 1 << 60}
		inParallel(b, func() { n.admit("", 100, 10, 5) })
	})
	for _, layers := range []int{0, 1, 4} {
		b.Run("by=watchdog/layers="+string(rune('0'+layers)), func(b *testing.B) {
			ctx := context.Background()
			wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Spend: limits}})
			check(b, err)
			defer wd.Close()
			for range layers {
				if wd, err = wd.Layer("layer", watchdog.Budget{Spend: limits}); err != nil {
					b.Fatal(err)
				}
				defer wd.Close()
			}
			inParallel(b, func() {
				c, err := wd.Admit(ctx, "", most)
				if err == nil {
					err = c.Settle(most)
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// inParallel measures the call on one goroutine and on as many as there are cores.
func inParallel(b *testing.B, call func()) {
	b.Helper()
	b.Run("goroutines=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("goroutines=all", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// BenchmarkAdmitShared is an admission and its settling on a scope that 16 callers share, durably, in PostgreSQL: by
// slices, and by the bare guarded UPDATE for each call. The calls use five sixths of the limit, so that slices get
// smaller as they do in life.
func BenchmarkAdmitShared(b *testing.B) {
	const callers, cost = 16, 5
	dsn := server(b)
	store, err := postgres.Open(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d", dsn, callers), postgres.Config{})
	check(b, err)
	defer store.Close()
	b.Run("by=guarded UPDATE", func(b *testing.B) { guardedUpdates(b, "pgx", dsn, callers) })
	b.Run("by=slices", func(b *testing.B) {
		wd, err := watchdog.New(b.Context(), watchdog.Run{ID: rand.Text(), StartedAt: time.Now()}, watchdog.Config{
			Store: store, Scopes: []watchdog.SharedSpend{{Scope: rand.Text(), Spend: watchdog.Spend{
				Requests: watchdog.NoLimit, WarnAt: []float64{},
				Cost: watchdog.Money{Micros: int64(b.N)*cost*6/5 + callers*cost, Currency: "EUR"},
			}}},
		})
		check(b, err)
		defer wd.Close()
		amount := watchdog.Amount{Requests: 1, Cost: watchdog.Money{Micros: cost, Currency: "EUR"}}
		fromMany(b, callers, func() error {
			c, err := wd.Admit(context.Background(), "", amount)
			if err != nil {
				return err
			}
			return c.Settle(amount)
		})
	})
}

func server(b *testing.B) string {
	b.Helper()
	s := pgtest.Start(b, pgtest.Options{Fsync: true})
	return s.DSN(s.Database(b))
}

// BenchmarkSpendTake charges one shared scope, durably, in each call. Beside it runs what a host writes by hand: one
// guarded UPDATE of a row, prepared, with the same settings of commit and as many connections. A run takes a slice for
// many calls, and the guarded UPDATE is one for each.
func BenchmarkSpendTake(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("in=SQLite/callers=%d", callers), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "spend.db")
			store, err := sqlite.Open(b.Context(), file)
			check(b, err)
			defer store.Close()
			b.Run("by=Take", func(b *testing.B) { takes(b, store, callers) })
			b.Run("by=guarded UPDATE", func(b *testing.B) {
				pragmas := "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
				guardedUpdates(b, "sqlite", "file:"+file+pragmas, callers)
			})
		})
	}
	b.Run("in=PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
				dsn := server.DSN(server.Database(b))
				store, err := postgres.Open(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d", dsn, callers), postgres.Config{})
				check(b, err)
				defer store.Close()
				b.Run("by=Take", func(b *testing.B) { takes(b, store, callers) })
				b.Run("by=guarded UPDATE", func(b *testing.B) { guardedUpdates(b, "pgx", dsn, callers) })
			})
		}
	})
}

func takes(b *testing.B, store watchdog.SpendStore, callers int) {
	b.Helper()
	fromMany(b, callers, func() error {
		g, err := store.Take(context.Background(), watchdog.Slice{
			ID: rand.Text(), Scope: "tenant-1", Currency: "EUR", Period: watchdog.PeriodDay, Zone: "Europe/Berlin",
			Least: watchdog.Totals{Requests: 1, Cost: 5},
			Limit: watchdog.Totals{Requests: watchdog.NoLimit, Cost: watchdog.NoLimit},
		})
		if err == nil && !g.Fits {
			err = fmt.Errorf("does not fit: %+v", g)
		}
		return err
	})
}

const guardedUpdate = `UPDATE by_hand SET requests = requests + $2, cost = cost + $3
	WHERE scope = $1 AND requests + $2 <= $4 AND cost + $3 <= $4`

func guardedUpdates(b *testing.B, driver, source string, connections int) {
	b.Helper()
	db, err := sql.Open(driver, source)
	check(b, err)
	defer db.Close()
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS by_hand (scope VARCHAR(255) PRIMARY KEY, requests BIGINT NOT NULL, cost BIGINT NOT NULL)`,
		`INSERT INTO by_hand VALUES ('tenant-1', 0, 0) ON CONFLICT DO NOTHING`,
	} {
		_, err := db.ExecContext(b.Context(), statement)
		check(b, err)
	}
	update, err := db.PrepareContext(b.Context(), guardedUpdate) //nolint:sqlclosecheck // with db
	check(b, err)
	fromMany(b, connections, func() error {
		result, err := update.ExecContext(context.Background(), "tenant-1", 1, 5, int64(1)<<60)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n != 1 {
			return fmt.Errorf("%d rows were charged: %w", n, err)
		}
		return nil
	})
}

// fromMany divides b.N calls among the callers.
func fromMany(b *testing.B, callers int, call func() error) {
	b.Helper()
	var all sync.WaitGroup
	var calls atomic.Int64
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// The streamed body: 1 GiB, in the chunks that a server flushes; and how much of it is read in one turn.
const (
	streamLength = 1 << 30
	chunkLength  = 4 << 10
	turnLength   = 16 << 20
)

// BenchmarkStream reads bodies of 1 GiB from a server on the loopback interface, which flushes every 4 KiB: without the
// Transport, with it, and with it in a run with an idle limit. It reads the three in turns of 16 MiB, because the
// machine's speed drifts by more than they differ. Run it once: -benchtime=1x -count=6.
func BenchmarkStream(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(serveStream))
	b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	base := server.Client().Transport
	wd := armIdle(b)
	var took [3]time.Duration
	for b.Loop() {
		streams := []io.ReadCloser{
			open(context.Background(), b, base, server.URL),
			open(context.Background(), b, &watchdoghttp.Transport{Base: base}, server.URL),
			open(wd.Context(), b, &watchdoghttp.Transport{Base: base}, server.URL),
		}
		for turn := range len(streams) * streamLength / turnLength {
			took[turn%len(streams)] += drain(b, streams[turn%len(streams)])
		}
		for _, stream := range streams {
			stream.Close()
		}
	}
	plain := took[0].Seconds()
	b.ReportMetric(float64(b.N)*streamLength/1e6/plain, "MB/s-plain")
	b.ReportMetric(plain/took[1].Seconds(), "x-Transport")
	b.ReportMetric(plain/took[2].Seconds(), "x-Transport,run")
	b.ReportMetric(0, "ns/op")
}

// serveStream sends the body, chunk by chunk.
func serveStream(w http.ResponseWriter, _ *http.Request) {
	chunk, flusher := make([]byte, chunkLength), w.(http.Flusher)
	for range streamLength / chunkLength {
		if _, err := w.Write(chunk); err != nil {
			return
		}
		flusher.Flush()
	}
}

// armIdle attaches a watchdog with an idle limit until the end of the benchmark.
func armIdle(b *testing.B) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
	})
	check(b, err)
	b.Cleanup(func() { wd.Close() })
	return wd
}

// open requests the body.
func open(ctx context.Context, b *testing.B, transport http.RoundTripper, url string) io.ReadCloser {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	check(b, err)
	resp, err := transport.RoundTrip(req)
	check(b, err)
	return resp.Body
}

// drain reads one turn of a body in chunks and returns how long that took.
func drain(b *testing.B, body io.Reader) time.Duration {
	b.Helper()
	began, chunk := time.Now(), make([]byte, chunkLength)
	for left := turnLength; left > 0; {
		n, err := body.Read(chunk[:min(left, chunkLength)])
		left -= n
		if err != nil && (err != io.EOF || left > 0) {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}
