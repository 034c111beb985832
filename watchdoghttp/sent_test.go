package watchdoghttp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// refusing returns an address of this machine at which nobody listens, and nobody can during the test.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}).String()
}

// accepting serves each connection with serve, and returns the address.
func accepting(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

// The frames of HTTP/2.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7

	flagEnd        = 1 // of the stream
	flagEndHeaders = 4

	noError       = 0
	internalError = 2
	refusedStream = 7
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

func reset(stream, code uint32) []byte {
	return frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func goAway(last, code uint32) []byte {
	return frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

func answered(stream uint32) []byte {
	const status200 = 0x88 // in HPACK's static table
	return append(frame(frameHeaders, flagEndHeaders, stream, []byte{status200}),
		frame(frameData, flagEnd, stream, []byte(meteredAnswer))...)
}

// serveHTTP2 answers each request, when all of it is there, with frames. After GOAWAY the connection ends.
func serveHTTP2(conn net.Conn, answer func(stream uint32) []byte) {
	frames := make(chan []byte, 10)
	go writeFrames(conn, frames) // apart from reading: the client may wait to write, too
	defer close(frames)
	const preface = 24
	if _, err := io.CopyN(io.Discard, conn, preface); err != nil {
		return
	}
	frames <- frame(frameSettings, 0, 0, nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, size); err != nil {
			return
		}
		if head[3] == frameData && head[4]&flagEnd != 0 {
			frames <- answer(binary.BigEndian.Uint32(head[5:]))
		}
	}
}

func writeFrames(conn net.Conn, all <-chan []byte) {
	for frames := range all {
		_, _ = conn.Write(frames)
		if frames[3] == frameGoAway {
			_ = conn.Close()
		}
	}
}

// http2Base returns a base that speaks HTTP/2 with a server which can be dialed so many times.
func http2Base(t *testing.T, dials int, answer func(stream uint32) []byte) *http.Transport {
	t.Helper()
	base := &http.Transport{Protocols: &http.Protocols{}}
	base.Protocols.SetUnencryptedHTTP2(true)
	base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		if dials--; dials < 0 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		go serveHTTP2(server, answer)
		return client, nil
	}
	return base
}

// A try is a call of a model with a base.
type try struct {
	base   http.RoundTripper
	url    string
	header http.Header
}

// most is what a call of a try is charged with if nothing is known of it.
const most = meteredMost + 10

// charge makes the call with a meter before the base, and returns what the run was charged with and the error.
func (c try) charge(ctx context.Context, t *testing.T) (int64, error) {
	t.Helper()
	wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{
		Logger: slog.New(slog.DiscardHandler),
		Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 10_000}},
	})
	require.NoError(t, err)
	defer wd.Close()
	req := request(wd.Context(), t, http.MethodPost, c.url+"/v1/messages", strings.NewReader(meteredCall))
	maps.Copy(req.Header, c.header)
	resp, err := (&watchdoghttp.Meter{Base: c.base}).RoundTrip(req)
	if err == nil {
		require.Same(t, req, resp.Request, "a copy of the request is shown")
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.Zero(t, wd.Usage()[0].Admitted, "the call is still open")
	return wd.Usage()[0].Used, err
}

// TestUnsent has calls that were never sent, which cost nothing.
func TestUnsent(t *testing.T) {
	plain := func(t *testing.T) *http.Transport {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	through := func(t *testing.T, proxy string) *http.Transport {
		transport := plain(t)
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
		return transport
	}
	// hung accepts a connection and says nothing; what it returns is closed then.
	hung := func(t *testing.T) (address string, accepted chan struct{}) {
		accepted = make(chan struct{})
		over := make(chan struct{})
		address = accepting(t, func(*net.TCPConn) { close(accepted); <-over })
		t.Cleanup(func() { close(over) })
		return address, accepted
	}
	ofReset := func(t *testing.T) string {
		return accepting(t, func(conn *net.TCPConn) {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.SetLinger(0)
		})
	}
	gone := func(code uint32) func(uint32) []byte { return func(uint32) []byte { return goAway(0, code) } }
	for name, begin := range map[string]func(t *testing.T) (try, string){
		"nobody listens": func(t *testing.T) (try, string) {
			return try{base: plain(t), url: "http://" + refusing(t)}, "connection refused"
		},
		"a certificate is not trusted": func(t *testing.T) (try, string) {
			server := httptest.NewUnstartedServer(nil)
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
			server.StartTLS()
			t.Cleanup(server.Close)
			return try{base: plain(t), url: server.URL}, "x509: certificate signed by unknown authority"
		},
		"a handshake is reset": func(t *testing.T) (try, string) {
			return try{base: plain(t), url: "https://" + ofReset(t)}, "connection reset"
		},
		"a handshake takes too long": func(t *testing.T) (try, string) {
			address, _ := hung(t)
			transport := plain(t)
			transport.TLSHandshakeTimeout = time.Millisecond
			return try{base: transport, url: "https://" + address}, "TLS handshake timeout"
		},
		"a server is silent in the handshake": func(t *testing.T) (try, string) {
			address, _ := hung(t)
			return try{base: &watchdoghttp.Transport{Base: plain(t), Idle: 100 * time.Millisecond}, url: "https://" + address}, "silent"
		},
		"a proxy refuses the connection": func(t *testing.T) (try, string) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusProxyAuthRequired)
			}))
			t.Cleanup(proxy.Close)
			return try{base: through(t, proxy.Listener.Addr().String()), url: "https://api.example"}, "Proxy Authentication Required"
		},
		"a proxy is not there": func(t *testing.T) (try, string) {
			return try{base: through(t, refusing(t)), url: "https://api.example"}, "connection refused"
		},
		"a proxy breaks off": func(t *testing.T) (try, string) {
			return try{base: through(t, ofReset(t)), url: "https://api.example"}, "connection reset"
		},
		"a server goes away before its stream": func(t *testing.T) (try, string) {
			return try{base: http2Base(t, 1, gone(internalError)), url: "http://api.example"}, "GOAWAY"
		},
		"a server that goes away is not there again": func(t *testing.T) (try, string) {
			return try{base: http2Base(t, 1, gone(noError)), url: "http://api.example"}, "connection refused"
		},
		"a server that goes away is not there again, and its silence is watched": func(t *testing.T) (try, string) {
			base := &watchdoghttp.Transport{Base: http2Base(t, 1, gone(noError))}
			return try{base: base, url: "http://api.example"}, "connection refused"
		},
		"the same behind a base that is not net/http's, before its stream": func(t *testing.T) (try, string) {
			return try{base: based(http2Base(t, 1, gone(internalError)).RoundTrip), url: "http://api.example"}, "GOAWAY"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, says := begin(t)
			used, err := c.charge(t.Context(), t)
			require.ErrorContains(t, err, says)
			require.Zero(t, used)
		})
	}
	t.Run("a caller gives up in the handshake", func(t *testing.T) {
		address, accepted := hung(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-accepted; cancel() }()
		used, err := try{base: plain(t), url: "https://" + address}.charge(ctx, t)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, used)
	})
}

// TestUnsentStreams has streams that a server does not process.
func TestUnsentStreams(t *testing.T) {
	// call makes a call to a server that answers so many streams with the frames, and then as it should.
	call := func(ctx context.Context, t *testing.T, times int64, frames func(stream uint32) []byte) (used, streams int64, err error) {
		t.Helper()
		var seen atomic.Int64
		base := http2Base(t, 10_000, func(stream uint32) []byte {
			if seen.Add(1) <= times {
				return frames(stream)
			}
			return answered(stream)
		})
		used, err = try{base: base, url: "http://api.example"}.charge(ctx, t)
		base.CloseIdleConnections()
		return used, seen.Load(), err
	}
	refuse := func(stream uint32) []byte { return reset(stream, refusedStream) }
	bubble(t, "one that is refused again and again costs nothing", func(t *testing.T) {
		used, streams, err := call(t.Context(), t, 1000, refuse)
		require.ErrorContains(t, err, "REFUSED_STREAM")
		require.Zero(t, used)
		require.Greater(t, streams, int64(1), "nothing was tried again")
	})
	bubble(t, "nor does it if the caller gives up meanwhile", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		used, _, err := call(ctx, t, 1000, refuse)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, used)
	})
	for name, frames := range map[string]func(stream uint32) []byte{
		"refuses": refuse, "goes away before": func(stream uint32) []byte { return goAway(stream-1, noError) },
	} {
		bubble(t, "one is charged once that a server answers in the end, and before that "+name, func(t *testing.T) {
			used, streams, err := call(t.Context(), t, 3, frames)
			require.NoError(t, err)
			require.EqualValues(t, 32, used)
			require.EqualValues(t, 4, streams)
		})
	}
	for _, text := range []string{
		"http2: client conn not usable", "http2: client conn could not be established",
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body " +
			"was written; define Request.GetBody to avoid this error",
	} {
		t.Run(text, func(t *testing.T) {
			base := traced(errors.New(text), func(trace *httptrace.ClientTrace) {
				trace.GetConn("api.example:443")
				trace.GotConn(httptrace.GotConnInfo{})
			})
			used, err := try{base: base, url: "https://api.example"}.charge(t.Context(), t)
			require.ErrorContains(t, err, text)
			require.Zero(t, used)
		})
	}
}

// traced is a base that tells of connections, and has no answer.
func traced(err error, tell func(*httptrace.ClientTrace)) http.RoundTripper {
	return based(func(req *http.Request) (*http.Response, error) {
		tell(httptrace.ContextClientTrace(req.Context()))
		return nil, err
	})
}

// TestSentInDoubt has calls that may have been sent, which are charged with the most that they can use.
func TestSentInDoubt(t *testing.T) {
	closing := func(t *testing.T) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		t.Cleanup(server.Close)
		return server
	}
	refused := &net.OpError{Op: "dial", Err: errHostGone}
	for name, begin := range map[string]func(t *testing.T) try{
		"an answer never comes": func(t *testing.T) try {
			server := closing(t)
			return try{base: server.Client().Transport, url: server.URL}
		},
		"a stream is reset for another reason": func(t *testing.T) try {
			base := http2Base(t, 1, func(stream uint32) []byte { return reset(stream, internalError) })
			return try{base: base, url: "http://api.example"}
		},
		"a server goes away that has its stream": func(t *testing.T) try {
			base := http2Base(t, 1, func(stream uint32) []byte { return goAway(stream, noError) })
			return try{base: base, url: "http://api.example"}
		},
		"a base tells nothing of connections": func(*testing.T) try {
			return try{base: based(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }), url: "http://api.example"}
		},
		"a base that may try again has no connection at last": func(*testing.T) try {
			return try{url: "http://api.example", base: traced(refused, func(trace *httptrace.ClientTrace) {
				trace.GetConn("api.example:80")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.GetConn("api.example:80")
			})}
		},
		"a base that may try again had an answer, and its stream is refused": func(*testing.T) try {
			err := errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer")
			return try{url: "http://api.example", base: traced(err, func(trace *httptrace.ClientTrace) {
				trace.GetConn("api.example:80")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.GotFirstResponseByte()
			})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			used, err := begin(t).charge(t.Context(), t)
			require.Error(t, err)
			require.Equal(t, most, used)
		})
	}
	t.Run("a request that net/http sends twice has no second connection", func(t *testing.T) {
		var calls atomic.Int64
		server := httptest.NewUnstartedServer(nil)
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			if calls.Add(1) == 1 {
				_, _ = io.WriteString(w, meteredAnswer)
				return
			}
			_ = server.Listener.Close()
			panic(http.ErrAbortHandler)
		})
		server.Start()
		t.Cleanup(server.Close)
		c := try{base: server.Client().Transport, url: server.URL, header: http.Header{"Idempotency-Key": {"1"}}}
		used, err := c.charge(t.Context(), t)
		require.NoError(t, err)
		require.EqualValues(t, 32, used)
		used, err = c.charge(t.Context(), t)
		require.ErrorContains(t, err, "connection refused", "it was not tried again")
		require.Equal(t, most, used)
	})
	t.Run("a caller gives up when it is sent", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			cancel()
			<-req.Context().Done()
		}))
		t.Cleanup(server.Close)
		used, err := try{base: server.Client().Transport, url: server.URL}.charge(ctx, t)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, most, used)
	})
}

// TestSentTold checks that the host's own trace of a request still hears everything.
func TestSentTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, meteredAnswer)
	}))
	defer server.Close()
	var told bytes.Buffer
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { told.WriteString("get ") }, GotConn: func(httptrace.GotConnInfo) { told.WriteString("got ") },
		GotFirstResponseByte: func() { told.WriteString("first") },
	})
	used, err := try{base: server.Client().Transport, url: server.URL}.charge(ctx, t)
	require.NoError(t, err)
	require.EqualValues(t, 32, used)
	require.Equal(t, "get got first", told.String())
}
