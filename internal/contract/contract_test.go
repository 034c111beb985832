package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/contract"
)

var (
	errOpen  = errors.New("no such place")
	errClose = errors.New("disk full")
)

type store struct{ closed bool }

func (s *store) Close() error {
	s.closed = true
	return errClose
}

// ruleOf returns a rule with a check.
func ruleOf(check func(e *contract.Env[*store])) contract.Rule[*store] {
	return contract.Rule[*store]{Name: "name", Why: "why", Check: check}
}

func TestCheck(t *testing.T) {
	t.Run("closes the store and joins the errors", func(t *testing.T) {
		s, broken := &store{}, errors.New("broken")
		err := contract.Check(t.Context(), ruleOf(func(*contract.Env[*store]) { contract.Fail(broken) }), s)
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, errClose)
		require.True(t, s.closed)
	})
	t.Run("does not close a store whose call hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, release := &store{}, make(chan struct{})
			err := contract.Check(t.Context(), ruleOf(func(*contract.Env[*store]) { <-release }), s)
			require.ErrorContains(t, err, "a call did not return within 3m0s")
			require.False(t, s.closed)
			close(release)
		})
	})
	t.Run("ends a check with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			err := contract.Within(t.Context(), time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

func TestTest(t *testing.T) {
	flaw := errors.New("flaw")
	rules := []contract.Rule[io.Closer]{
		{"kept", "", func(*contract.Env[io.Closer]) {}},
		{"broken", "it matters", func(*contract.Env[io.Closer]) { contract.Fail(flaw) }},
		{"optional", "", func(e *contract.Env[io.Closer]) { contract.Optional[io.Writer](e) }},
		{"optional calls that must fail", "", func(e *contract.Env[io.Closer]) {
			e.WithDoneContexts("write", func(done *contract.Env[io.Closer]) { contract.Optional[io.Writer](done) })
		}},
	}
	require.Equal(t, []string{"kept", "broken", "optional", "optional calls that must fail"}, contract.Names(rules))
	var broken []string
	err := contract.Test(rules, func() (io.Closer, error) { return io.NopCloser(nil), nil },
		func(name, why string, err error) error {
			broken = append(broken, name, why)
			return err
		})
	require.ErrorIs(t, err, flaw)
	require.Equal(t, []string{"broken", "it matters"}, broken, "what cannot be checked is not broken")
	require.ErrorIs(t, contract.Test(rules, func() (io.Closer, error) { return nil, errOpen }, nil), errOpen)
}

func TestWhile(t *testing.T) {
	e, cause := &contract.Env[*store]{Ctx: t.Context()}, errors.New("connection refused")
	checked := false
	ending := e.While(func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return cause
	}, func() { checked = true })
	require.True(t, checked)
	require.ErrorIs(t, ending, cause)
	err := contract.Catch(func() { e.While(func(context.Context, func()) error { return cause }, nil) })
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "it ended before it was ready")
}

func TestCatch(t *testing.T) {
	t.Run("returns the error of the first failure", func(t *testing.T) {
		flaw, went := errors.New("flaw"), false
		err := contract.Catch(func() {
			func() { contract.Fail(flaw) }()
			went = true
		})
		require.ErrorIs(t, err, flaw)
		require.False(t, went)
	})
	t.Run("returns nil for a check that comes to its end", func(t *testing.T) {
		require.NoError(t, contract.Catch(func() {}))
	})
	t.Run("does not recover from another panic", func(t *testing.T) {
		require.PanicsWithValue(t, "a bug", func() { _ = contract.Catch(func() { panic("a bug") }) })
	})
}

func TestFails(t *testing.T) {
	want := errors.New("wanted")
	fails := func(err error) error {
		return contract.Catch(func() { contract.Fails("it", want, func() { contract.Must(err, "call") }) })
	}
	require.NoError(t, fails(want))
	require.ErrorContains(t, fails(nil), "it: the call returned nil, want an error")
	require.ErrorContains(t, fails(errors.New("other")), "it: the error is not the wanted one, wanted: call: other")
}

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1.5e3,null]}`, ` { "b" : [1500,null], "a" : 1.0 } `, true},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":null}`, `{}`, false},
		{"", "", true},
		{"", "{}", false},
		{"{", "{ ", false},
	} {
		require.Equal(t, c.want, contract.SameJSON(json.RawMessage(c.a), json.RawMessage(c.b)), "%s and %s", c.a, c.b)
	}
}
