//go:build linux

package soak_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A proxy stands between a process and the two servers. It has a port for each.
type proxy struct {
	ports [2]net.Listener
	all   sync.WaitGroup
	lost  atomic.Int64 // the answers at which lines broke

	mu      sync.Mutex
	servers [2]string // the sockets behind the ports
	lines   map[*line]struct{}
	closed  bool
	cut     bool          // whoever connects is turned away
	losing  bool          // each line breaks at one of its next answers
	delay   time.Duration // of each chunk
	open    chan struct{} // closed while data passes
}

// A line is a connection through a proxy.
type line struct {
	client, server net.Conn
	port           int
	vanished       atomic.Bool  // nothing arrives at either end, and nothing closes it
	answers        atomic.Int64 // how many pass before it breaks; negative is all
}

// startProxy closes the proxy when the test ends.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{lines: map[*line]struct{}{}, open: make(chan struct{})}
	close(p.open)
	for i := range p.ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		p.ports[i] = listener
		p.all.Go(func() { p.accept(i) })
	}
	t.Cleanup(p.close)
	return p
}

// lead has a port lead to a server's socket from now on.
func (p *proxy) lead(port int, socket string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[port] = socket
}

// leave has a port lead nowhere from now on, and breaks its lines.
func (p *proxy) leave(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[port] = ""
	for l := range p.lines {
		if l.port == port && !l.vanished.Load() {
			l.hangUp()
		}
	}
}

// setDelay delays each chunk of data by so much.
func (p *proxy) setDelay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// setCut breaks all lines and turns new ones away, or takes new ones again.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for l := range p.lines {
		if cut && !l.vanished.Load() {
			l.hangUp()
		}
	}
}

// hold keeps back all data until the returned func is called, and then delivers it. Nobody can connect meanwhile.
func (p *proxy) hold() (deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make(chan struct{})
	p.open = open
	return func() { close(open) }
}

// vanish makes all lines half-open: nothing arrives any more at either end. New lines work. The returned func closes
// the server's ends, as the server does when it misses the client.
func (p *proxy) vanish() (miss func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var gone []*line
	for l := range p.lines {
		l.vanished.Store(true)
		gone = append(gone, l)
	}
	return func() {
		for _, l := range gone {
			l.server.Close()
		}
	}
}

// setLosing breaks each line at one of its next answers, after the server has carried out what it was asked.
func (p *proxy) setLosing(losing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = losing
	for l := range p.lines {
		l.lose(losing)
	}
}

// lose sets the number of answers that still pass. A new line needs a few before it is of any use.
func (l *line) lose(losing bool) {
	l.answers.Store(-1)
	if losing {
		l.answers.Store(rand.Int64N(8)) // which request it is depends on the processes anyway
	}
}

func (l *line) hangUp() {
	l.client.Close()
	l.server.Close()
}

func (p *proxy) accept(port int) {
	for {
		client, err := p.ports[port].Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.connect(port, client) })
	}
}

// connect connects a client with the server.
func (p *proxy) connect(port int, client net.Conn) {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		client.Close()
		return
	}
	server, err := net.Dial("unix", p.servers[port])
	if err != nil {
		client.Close()
		return
	}
	l := &line{client: client, server: server, port: port}
	l.lose(p.losing)
	p.lines[l] = struct{}{}
	var ways sync.WaitGroup
	ways.Go(func() { p.pass(l, client, server, false) })
	ways.Go(func() { p.pass(l, server, client, true) })
	p.all.Go(func() {
		ways.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, l)
	})
}

// pass passes data in one way until the line breaks.
func (p *proxy) pass(l *line, from, to net.Conn, answers bool) {
	content := make([]byte, 32<<10)
	for {
		n, err := from.Read(content)
		if l.vanished.Load() && err == nil {
			continue
		}
		p.mu.Lock()
		open, delay := p.open, p.delay
		p.mu.Unlock()
		<-open
		time.Sleep(delay)
		switch {
		case l.vanished.Load():
			if err == nil {
				continue
			}
			from.Close() // the other end is not told
			return
		case err == nil && answers && l.breaks():
			p.lost.Add(1)
			l.hangUp()
			return
		case err == nil:
			_, err = to.Write(content[:n])
		}
		if err != nil {
			l.hangUp()
			return
		}
	}
}

// breaks counts an answer, and reports whether the line breaks at it.
func (l *line) breaks() bool { return l.answers.Load() >= 0 && l.answers.Add(-1) < 0 }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.lines {
		l.hangUp()
	}
	p.mu.Unlock()
	for _, port := range p.ports {
		port.Close()
	}
	p.all.Wait()
}
