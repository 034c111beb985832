package main_test

import (
	"context"
	"net"
	"sync"
)

// pipes is a network in memory, for tests with fake time. It has a listener for each server, by address.
type pipes struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

func (p *pipes) listen(context.Context) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners = map[string]*pipeListener{}
	}
	address := pipeAddress(string(rune('a'+len(p.listeners))) + ".pipe:80")
	l := &pipeListener{address, make(chan net.Conn), make(chan struct{}), sync.Once{}}
	p.listeners[l.address.String()] = l
	return l, nil
}

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[address]
	p.mu.Unlock()
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	address pipeAddress
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return l.address }

type pipeAddress string

func (pipeAddress) Network() string  { return "pipe" }
func (a pipeAddress) String() string { return string(a) }
