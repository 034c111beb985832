package postgres_test

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// A proxy passes TCP connections on to a server, until the network behind it vanishes.
type proxy struct {
	listener         net.Listener
	database         string
	network, address string // of the server
	down             atomic.Bool
	all              sync.WaitGroup

	mu    sync.Mutex
	lines []*line
}

// A line is a connection through a proxy. Once it is lost it is half-open: nothing arrives at either end, and nothing
// closes it.
type line struct {
	ends []net.Conn
	lost atomic.Bool
}

// startProxy closes the proxy when the test ends.
func startProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	p := &proxy{database: config.ConnConfig.Database}
	p.network, p.address = pgconn.NetworkAddress(config.ConnConfig.Host, config.ConnConfig.Port)
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.all.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// DSN returns the connection string of the database through the proxy.
func (p *proxy) DSN() string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.listener.Addr(), p.database)
}

// vanish loses the open connections, and those that are made until forward is called.
func (p *proxy) vanish() {
	p.down.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.lost.Store(true)
	}
}

// forward passes new connections on again.
func (p *proxy) forward() { p.down.Store(false) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.connect(client)
	}
}

func (p *proxy) connect(client net.Conn) {
	l := &line{ends: []net.Conn{client}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l)
	if p.down.Load() {
		return
	}
	server, err := net.Dial(p.network, p.address)
	if err != nil {
		client.Close()
		return
	}
	l.ends = append(l.ends, server)
	p.all.Go(func() { l.pass(client, server) })
	p.all.Go(func() { l.pass(server, client) })
}

func (l *line) pass(from, to net.Conn) {
	content := make([]byte, 32<<10)
	for {
		n, err := from.Read(content)
		switch {
		case l.lost.Load() && err != nil:
			return
		case l.lost.Load():
			continue
		case err == nil:
			_, err = to.Write(content[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for _, l := range p.lines {
		l.lost.Store(true)
		for _, end := range l.ends {
			end.Close()
		}
	}
	p.mu.Unlock()
	p.all.Wait()
}
