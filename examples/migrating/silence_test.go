package migrating_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/migrating"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A kind is a guard against silence: a host with the one that is written by hand, and the same host with ours.
type kind struct {
	name          string
	before, after side
	// text is the silence that a text may take: none where what the host does with it is no silence of the agent's.
	text time.Duration
	// handlesFreely says that the guard is blind while its host handles a message, by hand and ours.
	handlesFreely bool
	// answers says that the agent answers in bytes, over HTTP.
	answers bool
	// pairs says that the agent runs its tools itself, and sends a call and a result of each.
	pairs bool
}

// A side is one of the two hosts.
type side struct {
	run host
	// found is how long after its beginning a silence is found that may last for the allowed time.
	found func(allowed time.Duration) time.Duration
	// atLeast says that a sign of life at the limit itself comes too late.
	atLeast bool
	// ownContext says that the host makes a context and has to end it.
	ownContext bool
	told       func(t *testing.T, err error)
}

// exactly is one nanosecond later: more than the limit.
func exactly(allowed time.Duration) time.Duration { return allowed + 1 }

// atLimit is a timer's.
func atLimit(allowed time.Duration) time.Duration { return allowed }

// nextTick is a ticker's: up to a tick later.
func nextTick(allowed time.Duration) time.Duration { return allowed.Truncate(limit/10) + limit/10 }

// toldByHand checks that the error is that of a guard by hand.
func toldByHand(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, migrating.ErrSilent)
}

// toldByStop checks that the error says which guard ended the host, and by which limit.
func toldByStop(t *testing.T, err error) {
	t.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(t, err, &stop)
	require.Equal(t, watchdog.IdleExceeded, stop.Code)
	require.Equal(t, stop.Budget+1, stop.Elapsed)
	require.Empty(t, stop.RunID)
}

// toldBySilence checks the error of a transport.
func toldBySilence(t *testing.T, err error) {
	t.Helper()
	var silence *watchdoghttp.SilenceError
	require.ErrorAs(t, err, &silence)
	require.Equal(t, "agent.example", silence.Host)
	require.Equal(t, limit, silence.Limit)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// kinds are the guards whose decision needs nothing but time.
var kinds = []kind{
	{
		name: "ticker and atomics", text: limit, pairs: true,
		before: side{run: starter(migrating.TickerBefore), found: nextTick, told: toldByHand, ownContext: true},
		after:  side{run: starter(migrating.TickerAfter), found: exactly, told: toldByStop, ownContext: true},
	}, {
		name: "time.AfterFunc and Reset", text: limit,
		before: side{
			run: consumer(migrating.AfterFuncBefore), found: atLimit, atLeast: true, told: toldByHand, ownContext: true,
		},
		after: side{run: consumer(migrating.AfterFuncAfter), found: exactly, told: toldByStop, ownContext: true},
	}, {
		name: "an idle round-tripper", answers: true, handlesFreely: true,
		before: side{run: client(migrating.RoundTripperBefore), found: atLimit, atLeast: true, told: toldByHand},
		after:  side{run: client(migrating.RoundTripperAfter), found: exactly, told: toldBySilence},
	},
}

// A usual test is one that the authors of such guards write.
type usual struct {
	sentence string
	check    func(t *testing.T, k kind, s side)
}

// A machine that sleeps is not among them: fake time has one clock, and no test without the rights of root can put the
// machine to sleep. docs/migrating.md says what the guards do then, from the clocks that they read.
var usualTests = []usual{
	{"it fires at the limit, and the caller is told why", firesAtTheLimit},
	{"a sign of life at the limit itself is in time, unless the guard says at least", atTheLimitItself},
	{"activity begins the silence anew", activityResets},
	{"bytes that are no whole message yet are a sign of life", bytesArrive},
	{"a tool in flight may be silent for longer, and says so by itself", toolInFlight},
	{"a tool that is silent for longer than its own limit is ended", silentTool},
	{"a tool may be silent for less long than the agent", shortTool},
	{"a person who is asked may take any time, and after that the limit counts again", approvalPending},
	{"a reader that is behind while messages wait is no silence", messagesWaiting},
	{"a host whose context is done before the start begins nothing", stoppedBeforeStart},
	{"a limit of 0 is off", limitOfZero},
	{"the end from outside ends it at once, and is not taken for silence", endedFromOutside},
	{"when it has returned its context has ended", contextEnds},
}

func TestSilence(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for name, s := range map[string]side{"before": k.before, "after": k.after} {
				t.Run(name, func(t *testing.T) {
					for _, u := range usualTests {
						t.Run(u.sentence, func(t *testing.T) {
							// No leak: a bubble fails if a goroutine of it is left.
							synctest.Test(t, func(t *testing.T) { u.check(t, k, s) })
						})
					}
				})
			}
		})
	}
}

// firesAtTheLimit has an agent say nothing for three limits.
func firesAtTheLimit(t *testing.T, k kind, s side) {
	a := start(t.Context(), t, k, s.run, limit)
	time.Sleep(limit - 1)
	synctest.Wait()
	require.False(t, a.hasEnded())
	time.Sleep(2*limit + 1)
	a.say()
	s.told(t, a.end())
	require.Equal(t, s.found(limit), a.after)
}

func atTheLimitItself(t *testing.T, k kind, s side) {
	a := start(t.Context(), t, k, s.run, limit)
	time.Sleep(limit)
	synctest.Wait()
	require.Equal(t, s.atLeast, a.hasEnded())
	a.say()
	err := a.end()
	if s.atLeast {
		s.told(t, err)
		return
	}
	require.NoError(t, err)
}

func activityResets(t *testing.T, k kind, s side) {
	a := start(t.Context(), t, k, s.run, limit)
	for range 20 {
		time.Sleep(limit - 1)
		a.say()
	}
	require.NoError(t, a.end())
	require.Equal(t, 20*(limit-1), a.after)
}

func bytesArrive(t *testing.T, k kind, s side) {
	if !k.answers {
		t.Skip("messages come whole")
	}
	a := start(t.Context(), t, k, s.run, limit)
	for range 5 {
		time.Sleep(limit - 1)
		a.sendBytes()
	}
	a.say()
	require.NoError(t, a.end())
	require.Equal(t, 5*(limit-1), a.after)
}

// toolInFlight has a tool say something every four limits, where five are allowed.
func toolInFlight(t *testing.T, k kind, s side) {
	a := start(t.Context(), t, k, s.run, limit)
	a.do(5*limit, func(ctx context.Context, alive func()) error {
		for range 10 {
			if err := sleep(ctx, 4*limit); err != nil {
				return err
			}
			alive()
		}
		return nil
	})
	require.NoError(t, a.end())
	require.Equal(t, 40*limit, a.after)
}

func silentTool(t *testing.T, k kind, s side) { toolEnds(t, k, s, 5*limit) }

func shortTool(t *testing.T, k kind, s side) { toolEnds(t, k, s, limit/2) }

// toolEnds has a tool be silent for longer than it may.
func toolEnds(t *testing.T, k kind, s side, allowed time.Duration) {
	if k.handlesFreely {
		t.Skip("a round-tripper sees the server, and not what its host does between two reads")
	}
	a := start(t.Context(), t, k, s.run, limit)
	a.send(allowed, 4*allowed)
	s.told(t, a.end())
	require.Equal(t, s.found(allowed), a.after)
}

func approvalPending(t *testing.T, k kind, s side) {
	const takes = 1000 * limit
	a := start(t.Context(), t, k, s.run, limit)
	a.send(0, takes)
	time.Sleep(takes + limit - 1)
	synctest.Wait()
	require.False(t, a.hasEnded())
	time.Sleep(2*limit + 1)
	a.say()
	s.told(t, a.end())
	require.Equal(t, takes+s.found(limit), a.after)
}

// messagesWaiting has the host work on a text for three and a half limits while others wait.
func messagesWaiting(t *testing.T, k kind, s side) {
	a := start(t.Context(), t, k, s.run, limit)
	a.send(k.text, 7*limit/2)
	for range 3 {
		a.say()
	}
	time.Sleep(9*limit/2 - 1)
	a.say()
	require.NoError(t, a.end())
	require.Equal(t, 9*limit/2-1, a.after)
}

func stoppedBeforeStart(t *testing.T, k kind, s side) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := start(ctx, t, k, s.run, limit)
	require.ErrorIs(t, a.end(), context.Canceled)
	require.Zero(t, a.after)
	notSilent(t, a.err)
}

func limitOfZero(t *testing.T, k kind, s side) {
	if k.text > 0 {
		k.text = 1
	}
	a := start(t.Context(), t, k, s.run, 0)
	time.Sleep(1000 * limit)
	a.send(k.text, 1000*limit)
	a.send(5*limit, 1000*limit)
	require.NoError(t, a.end())
	took := 3000 * limit
	if k.pairs {
		took -= 1000 * limit // the agent runs its tool while the host is busy with the text
	}
	require.Equal(t, took, a.after)
}

func endedFromOutside(t *testing.T, k kind, s side) {
	shutdown := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	a := start(ctx, t, k, s.run, limit)
	a.send(5*limit, time.Hour)
	time.Sleep(limit / 2)
	cancel(shutdown)
	err := a.wait()
	require.Equal(t, limit/2, a.after)
	require.ErrorIs(t, err, context.Canceled)
	notSilent(t, err)
	close(a.sent)
}

func contextEnds(t *testing.T, k kind, s side) {
	if !s.ownContext {
		t.Skip("the host has the context of its caller")
	}
	a := start(t.Context(), t, k, s.run, limit)
	var own context.Context
	a.do(k.text, func(ctx context.Context, _ func()) error { own = ctx; return nil })
	require.NoError(t, own.Err())
	require.NoError(t, a.end())
	require.ErrorIs(t, own.Err(), context.Canceled)
	require.NoError(t, t.Context().Err())
}

// notSilent checks that an error is no guard's.
func notSilent(t *testing.T, err error) {
	t.Helper()
	require.NotErrorIs(t, err, migrating.ErrSilent)
	require.NotErrorIs(t, err, watchdog.IdleExceeded)
	require.NotErrorIs(t, err, watchdoghttp.ErrSilent)
}

// limit is how long the agent of a test may be silent. A ticker looks every ten seconds.
const limit time.Duration = 100 * time.Second

// A host runs an agent under a limit of silence.
type host func(ctx context.Context, a *agent, limit time.Duration) error

// consumer is a host of an agent that sends on a channel.
func consumer(consume func(context.Context, <-chan migrating.Message, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		return consume(ctx, a.channel(ctx), limit)
	}
}

// starter is a host that begins an agent itself.
func starter(run func(context.Context, migrating.Agent, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		begin := func(ctx context.Context) (<-chan migrating.Message, error) { return a.channel(ctx), nil }
		return run(ctx, begin, limit)
	}
}

// client is a host of an agent that answers over HTTP.
func client(read func(context.Context, migrating.API, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		api := migrating.API{Transport: a, URL: "http://agent.example/answer", Decode: a.decode}
		return read(ctx, api, limit)
	}
}

// An agent says what the script of a test has it say. What its host has not taken yet waits.
type agent struct {
	t    *testing.T
	kind kind

	mu       sync.Mutex // guards the rest
	messages []migrating.Message
	sent     chan int // the index of each message
	ended    chan struct{}
	err      error
	after    time.Duration
}

// start runs a host with an agent in the bubble of the test.
func start(ctx context.Context, t *testing.T, k kind, run host, limit time.Duration) *agent {
	t.Helper()
	a := &agent{t: t, kind: k, sent: make(chan int, 100), ended: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(a.ended)
		a.err = run(ctx, a, limit)
		a.after = time.Since(began)
	}()
	synctest.Wait()
	return a
}

// send sends a message that takes a time in which it says nothing, unless the context ends.
func (a *agent) send(silence, takes time.Duration) {
	a.do(silence, func(ctx context.Context, _ func()) error { return sleep(ctx, takes) })
}

// say sends a text, which takes no time.
func (a *agent) say() { a.send(a.kind.text, 0) }

func (a *agent) do(silence time.Duration, handle func(context.Context, func()) error) {
	a.mu.Lock()
	a.messages = append(a.messages, migrating.Message{Silence: silence, Handle: handle})
	a.sent <- len(a.messages) - 1
	a.mu.Unlock()
	synctest.Wait()
}

// someBytes stands for bytes of an answer that are no whole line.
const someBytes = -1

// sendBytes sends some.
func (a *agent) sendBytes() {
	a.sent <- someBytes
	synctest.Wait()
}

// end ends what the agent says, waits for the host, and returns what it returned.
func (a *agent) end() error {
	close(a.sent)
	return a.wait()
}

func (a *agent) wait() error {
	<-a.ended
	return a.err
}

// hasEnded reports whether the host has.
func (a *agent) hasEnded() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

func (a *agent) message(i int) migrating.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.messages[i]
}

// channel is what the agent says, for a host that takes one message at a time.
func (a *agent) channel(ctx context.Context) <-chan migrating.Message {
	messages := make(chan migrating.Message, cap(a.sent))
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.ended:
				return
			case i, more := <-a.sent:
				if !more {
					close(messages)
					return
				}
				a.tell(ctx, messages, a.message(i))
			}
		}
	}()
	return messages
}

// tell sends a message. An agent that runs its tools itself sends what these say as texts.
func (a *agent) tell(ctx context.Context, messages chan<- migrating.Message, message migrating.Message) {
	if !a.kind.pairs || message.Silence == a.kind.text {
		messages <- message
		return
	}
	nothing := func(context.Context, func()) error { return nil }
	messages <- migrating.Message{Call: "call-1", Silence: message.Silence}
	_ = message.Handle(ctx, func() { messages <- migrating.Message{Handle: nothing} })
	messages <- migrating.Message{Result: "call-1"}
}

// RoundTrip implements [http.RoundTripper]. The body heeds the context, as that of a real one does.
func (a *agent) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() {
		defer w.Close()
		for i := range a.sent {
			line := fmt.Sprintln(i)
			if i == someBytes {
				line = " "
			}
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}()
	stop := context.AfterFunc(req.Context(), func() { _ = body.CloseWithError(req.Context().Err()) })
	answer := &http.Response{StatusCode: http.StatusOK, Body: streamed{body, stop}, Request: req}
	return answer, nil
}

// A streamed body lets its request's context go when it is closed.
type streamed struct {
	*io.PipeReader
	stop func() bool
}

// Close implements [io.Closer].
func (b streamed) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

func (a *agent) decode(line []byte) migrating.Message {
	i, err := strconv.Atoi(strings.TrimSpace(string(line)))
	require.NoError(a.t, err)
	return a.message(i)
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
