package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// priced is a call with a cost that grows with its output.
func priced(in, out int64) watchdog.Amount {
	return watchdog.Amount{InputTokens: in, OutputTokens: out, Cost: euros(3*in + 15*out), Requests: 1}
}

func TestAdmitWithin(t *testing.T) {
	everything := watchdog.Spend{Tokens: 1000, OutputTokens: 800, CallInput: 100, Cost: euros(9000), Requests: 10}
	for name, c := range map[string]struct {
		limits      watchdog.Spend
		reserve     watchdog.Totals
		before      watchdog.Amount
		least, most watchdog.Amount
		want        watchdog.Amount
		refused     string
	}{
		"not less than that": {
			limits: watchdog.Spend{Tokens: 1000}, before: tokens(891, 0), least: tokens(100, 10), most: tokens(100, 900),
			refused: "tokens: 109 of 1,000 left beside 891 for calls under way, and this call may need 110",
		},
		"by the scarcest of several limits": {
			limits: everything, before: tokens(0, 200), least: priced(100, 10), most: priced(100, 900), want: priced(100, 580),
		},
		"by the output": {
			limits: everything, before: tokens(0, 500), least: priced(100, 10), most: priced(100, 900), want: priced(100, 300),
		},
		"what of it cannot be made smaller is refused as ever": {
			limits: everything, least: priced(101, 10), most: priced(101, 20), refused: "call input: at most 100, and this call may need 101",
		},
		"up to a reserve": {
			limits: watchdog.Spend{Tokens: 1000}, reserve: watchdog.Totals{Tokens: 300}, least: tokens(100, 10),
			most: tokens(100, 900), want: tokens(100, 600),
		},
		"without a limit": {
			limits: watchdog.Spend{Requests: 5}, least: tokens(0, 0), most: tokens(1, 1<<62), want: tokens(1, 1<<62),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, around := range []bool{false, true} {
				inFixture(t, func(f *fixture) {
					f.cfg.Budget.Spend, f.cfg.Budget.Spend.Reserve = c.limits, c.reserve
					session := f.attach()
					admit(t, session, c.before)
					wd := session
					if around {
						wd = openLayer(t, wd, "inner", watchdog.Budget{})
					}
					charge, granted, err := wd.AdmitWithin(context.Background(), "", c.least, c.most, 0)
					if c.refused != "" {
						var refused *watchdog.Refused
						require.ErrorAs(t, err, &refused)
						assert.Equal(t, c.refused, refused.String())
						assert.True(t, hasFired(session), "it is the limit's trip")
						return
					}
					require.NoError(t, err)
					assert.Equal(t, c.want, granted)
					require.NoError(t, charge.Settle(granted))
					assert.False(t, hasFired(wd))
				})
			}
		})
	}
}

// TestAdmitWithinModel holds grants against all uses between the two, tried one after another.
func TestAdmitWithinModel(t *testing.T) {
	for seed := range uint64(200) {
		inFixture(t, func(f *fixture) {
			rng := rand.New(rand.NewPCG(seed, 41))
			f.cfg.Budget.Spend = watchdog.Spend{
				Tokens: rng.Int64N(400) + 1, OutputTokens: rng.Int64N(300) + 1, InputTokens: rng.Int64N(300) + 1,
			}
			if rng.IntN(2) == 0 {
				f.cfg.SpendStore = nil
				f.cfg.Store = nil
				f.run = watchdog.Run{}
			}
			wd := f.attach()
			for range 12 {
				in, least := rng.Int64N(60), rng.Int64N(30)
				most := tokens(in, least+rng.Int64N(200))
				want := int64(-1)
				for out := most.OutputTokens; out >= least && want < 0; out-- {
					fits := true
					for _, u := range wd.Usage() {
						need := map[string]int64{"tokens": in + out, "output_tokens": out, "input_tokens": in}[u.Limit]
						fits = fits && (need == 0 || need <= u.Remaining())
					}
					if fits {
						want = out
					}
				}
				charge, granted, err := wd.AdmitWithin(context.Background(), "", tokens(in, least), most, 0)
				if want < 0 {
					require.Error(t, err, "seed %d", seed)
					return
				}
				require.NoError(t, err, "seed %d", seed)
				require.Equal(t, tokens(in, want), granted, "seed %d", seed)
				if rng.IntN(2) == 0 {
					require.NoError(t, charge.Settle(tokens(in, rng.Int64N(want+1))))
				}
			}
		})
	}
}

func TestAdmitWithinInvalid(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend.Tokens = 1000
		wd := f.attach()
		for says, c := range map[string]struct {
			least, most watchdog.Amount
			wait        time.Duration
		}{
			"its OutputTokens is 2 more than that of the most":                  {least: tokens(1, 5), most: tokens(1, 3)},
			"its InputTokens is -1":                                             {least: tokens(-1, 0)},
			"it is -1s; use a positive duration, or 0 for none":                 {wait: -time.Second},
			"its currency, tool and result have to be those of the most":        {least: watchdog.Amount{ToolCalls: 1, Tool: "a"}, most: watchdog.Amount{ToolCalls: 1}},
			"least of a call in run s-1: its currency, tool and result have to": {least: watchdog.Amount{Cost: euros(1)}, most: tokens(1, 1)},
		} {
			_, _, err := wd.AdmitWithin(context.Background(), "", c.least, c.most, c.wait)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			assert.ErrorContains(t, err, says)
		}
		assert.Equal(t, int64(1000), wd.Usage()[0].Remaining(), "bad input changes nothing")
		assert.False(t, hasFired(wd))
	})
}

// within is the answer to a call that waits.
type within struct {
	charge  watchdog.Charge
	granted watchdog.Amount
	err     error
	took    time.Duration
}

// inLine makes a call that waits, on a goroutine of its own.
func inLine(ctx context.Context, wd *watchdog.Watchdog, least, most watchdog.Amount) <-chan within {
	answer := make(chan within, 1)
	go func() {
		var a within
		began := time.Now()
		a.charge, a.granted, a.err = wd.AdmitWithin(ctx, "", least, most, 45*time.Second)
		a.took = time.Since(began)
		answer <- a
	}()
	synctest.Wait()
	return answer
}

// atOnce requires that a call was made, and did not wait.
func atOnce(t *testing.T, got within) within {
	t.Helper()
	require.NoError(t, got.err)
	require.Zero(t, got.took)
	return got
}

// inRun runs a test with a session that may spend so many tokens, on the time of the bubble.
func inRun(t *testing.T, cfg watchdog.Config, test func(t *testing.T, wd *watchdog.Watchdog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Logger = quiet
		run := watchdog.Run{}
		if cfg.SpendStore != nil {
			cfg.Store, run = &watchdog.Memory{}, watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		}
		test(t, attachTo(context.Background(), t, run, cfg))
	})
}

// TestAdmitWaits has calls wait for those that are under way, with a limit of the run alone, of its store and of a scope.
func TestAdmitWaits(t *testing.T) {
	limit := watchdog.Spend{Tokens: 1000}
	for of, cfg := range map[string]func() watchdog.Config{
		"its own": func() watchdog.Config { return watchdog.Config{Budget: watchdog.Budget{Spend: limit}} },
		"its stores": func() watchdog.Config {
			return watchdog.Config{Budget: watchdog.Budget{Spend: limit}, SpendStore: &watchdog.Memory{}}
		},
		"a scopes": func() watchdog.Config {
			return watchdog.Config{
				Scopes: []watchdog.SharedSpend{{Scope: "team", Spend: limit}}, SpendStore: &watchdog.Memory{},
			}
		},
	} {
		for name, test := range map[string]func(t *testing.T, wd *watchdog.Watchdog){
			"until they are settled, and not made smaller": func(t *testing.T, wd *watchdog.Watchdog) {
				first, second := admit(t, wd, tokens(200, 0)), admit(t, wd, tokens(720, 0))
				a := inLine(context.Background(), wd, tokens(50, 10), tokens(50, 600))
				require.Empty(t, a)
				require.NoError(t, first.Settle(tokens(100, 0)))
				synctest.Wait()
				require.Empty(t, a, "the second holds 720")
				require.NoError(t, second.Settle(tokens(300, 0)))
				got := atOnce(t, <-a)
				assert.Equal(t, tokens(50, 550), got.granted, "it is made smaller when there is nothing to wait for")
			},
			"but not for more than a quarter of what they may use": func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(800, 0))
				got := atOnce(t, <-inLine(context.Background(), wd, tokens(50, 0), tokens(50, 600)))
				assert.Equal(t, tokens(50, 150), got.granted)
				require.NoError(t, got.charge.Void())
				got = <-inLine(context.Background(), wd, tokens(50, 0), tokens(50, 604))
				assert.Equal(t, 45*time.Second, got.took)
			},
			"in order": func(t *testing.T, wd *watchdog.Watchdog) {
				first := admit(t, wd, tokens(900, 0))
				large := inLine(context.Background(), wd, tokens(800, 0), tokens(800, 0))
				small := inLine(context.Background(), wd, tokens(60, 0), tokens(60, 0))
				synctest.Wait()
				require.Empty(t, small, "it fits, and stands behind another")
				require.NoError(t, first.Void())
				for _, a := range []<-chan within{large, small} {
					atOnce(t, <-a)
				}
			},
			"until the client is gone, which is charged nothing": func(t *testing.T, wd *watchdog.Watchdog) {
				first := admit(t, wd, tokens(900, 0))
				ctx, cancel := context.WithCancelCause(context.Background())
				gone := inLine(ctx, wd, tokens(800, 0), tokens(800, 0))
				next := inLine(context.Background(), wd, tokens(60, 0), tokens(60, 0))
				cancel(errors.New("the client is gone"))
				require.ErrorContains(t, (<-gone).err, "the client is gone")
				got := <-next
				require.NoError(t, got.err)
				require.Zero(t, got.took, "its place is free")
				require.NoError(t, first.Void())
				assert.Equal(t, int64(940), wd.Usage()[0].Remaining())
			},
			"no longer than they may, and take what there is": func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(900, 0))
				a := inLine(context.Background(), wd, tokens(50, 10), tokens(50, 600))
				got := <-a
				require.NoError(t, got.err)
				assert.Equal(t, 45*time.Second, got.took)
				assert.Equal(t, tokens(50, 50), got.granted)
			},
			"and if there is nothing, that is no trip": func(t *testing.T, wd *watchdog.Watchdog) {
				first := admit(t, wd, tokens(960, 0))
				got := <-inLine(context.Background(), wd, tokens(50, 10), tokens(50, 600))
				require.ErrorIs(t, got.err, context.DeadlineExceeded)
				assert.ErrorContains(t, got.err, "calls under way hold what is left")
				require.False(t, hasFired(wd))
				require.NoError(t, first.Void())
				got = <-inLine(context.Background(), wd, tokens(50, 10), tokens(50, 600))
				assert.Equal(t, tokens(50, 600), got.granted)
			},
			"and are refused once nothing is under way any more": func(t *testing.T, wd *watchdog.Watchdog) {
				first := admit(t, wd, tokens(960, 0))
				a := inLine(context.Background(), wd, tokens(50, 10), tokens(50, 600))
				require.NoError(t, first.Settle(tokens(960, 0)))
				var refused *watchdog.Refused
				require.ErrorAs(t, (<-a).err, &refused)
				assert.EqualValues(t, 60, refused.Needed)
				assert.True(t, hasFired(wd))
			},
			"or at once if they would not fit alone": func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(500, 0))
				got := <-inLine(context.Background(), wd, tokens(1001, 0), tokens(1001, 0))
				var refused *watchdog.Refused
				require.ErrorAs(t, got.err, &refused)
				assert.Zero(t, got.took)
			},
			"or the run ends": func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(960, 0))
				a := inLine(context.Background(), wd, tokens(50, 0), tokens(50, 0))
				_, _ = wd.Cancel(watchdog.Cancellation{Reason: "asked"})
				require.ErrorIs(t, (<-a).err, watchdog.ErrEnded)
			},
		} {
			t.Run(fmt.Sprintf("by a limit of %s, %s", of, name), func(t *testing.T) {
				inRun(t, cfg(), test)
			})
		}
	}
	for of, store := range map[string]watchdog.SpendStore{"its own": nil, "its stores": &watchdog.Memory{}} {
		t.Run("for an extension of a limit of "+of, func(t *testing.T) {
			cfg := watchdog.Config{Budget: watchdog.Budget{Spend: limit}, SpendStore: store}
			inRun(t, cfg, func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(960, 0))
				a := inLine(context.Background(), wd, tokens(50, 0), tokens(50, 0))
				require.NoError(t, wd.ExtendSpend(watchdog.Spend{Tokens: 100}))
				atOnce(t, <-a)
			})
		})
	}
	reserved := limit
	reserved.Reserve.Tokens = 100
	for of, cfg := range map[string]watchdog.Config{
		"the run": {Budget: watchdog.Budget{Spend: reserved}},
		"a scope": {Scopes: []watchdog.SharedSpend{{Scope: "team", Spend: reserved}}, SpendStore: &watchdog.Memory{}},
	} {
		t.Run("for a reserve of "+of+" that another's refusal unlocks", func(t *testing.T) {
			inRun(t, cfg, func(t *testing.T, wd *watchdog.Watchdog) {
				admit(t, wd, tokens(880, 0))
				a := inLine(context.Background(), wd, tokens(50, 0), tokens(50, 0))
				require.Empty(t, a)
				refuse(t, wd, tokens(901, 0))
				atOnce(t, <-a)
			})
		})
	}
	t.Run("without a limit nobody waits", func(t *testing.T) {
		inRun(t, watchdog.Config{}, func(t *testing.T, wd *watchdog.Watchdog) {
			admit(t, wd, tokens(1<<60, 0))
			require.NoError(t, (<-inLine(context.Background(), wd, tokens(50, 0), tokens(1<<60, 0))).err)
		})
	})
}

// TestAdmitWithinExceeded has a call of which the least takes nothing of a limit that is exceeded.
func TestAdmitWithinExceeded(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{OutputTokens: 100}}}
	cfg.Budget.Ladders.Tokens = many(watchdog.DirectiveWait, 1)
	inRun(t, cfg, func(t *testing.T, wd *watchdog.Watchdog) {
		assert.NoError(t, admit(t, wd, tokens(0, 10)).Settle(tokens(0, 150)))
		_, granted, err := wd.AdmitWithin(context.Background(), "", priced(1, 0), priced(1, 50), 0)
		assert.NoError(t, err)
		assert.Equal(t, priced(1, 0), granted)
	})
}

func TestAdmitWithinKeys(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend.Tokens = 1000
		wd := f.attach()
		other := admit(t, wd, tokens(700, 0))
		first, granted, err := wd.AdmitWithin(context.Background(), "k", tokens(100, 0), tokens(100, 900), 0)
		require.NoError(t, err)
		require.Equal(t, tokens(100, 200), granted)
		require.NoError(t, other.Void())
		again, granted, err := wd.AdmitWithin(context.Background(), "k", tokens(100, 0), tokens(100, 900), time.Second)
		require.NoError(t, err)
		assert.Equal(t, first, again)
		assert.Equal(t, tokens(100, 200), granted, "it was told so before, and may have been sent")
		_, _, err = wd.AdmitWithin(context.Background(), "k", tokens(100, 201), tokens(100, 900), 0)
		assert.ErrorIs(t, err, watchdog.ErrInvalid)
	})
}

// TestAdmitWithinElsewhere has another process use a limit that both share: what is left there is asked of the store
// before a call is made smaller, and when it is.
func TestAdmitWithinElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		freed   bool
		granted watchdog.Amount
	}{
		"what the other has used":          {false, tokens(50, 340)},
		"nor what it has given back since": {true, tokens(50, 600)},
	} {
		t.Run(name, func(t *testing.T) {
			store := &watchdog.Memory{}
			team := []watchdog.SharedSpend{{Scope: "team", Spend: watchdog.Spend{Tokens: 1000}}}
			inRun(t, watchdog.Config{Scopes: team, SpendStore: store}, func(t *testing.T, wd *watchdog.Watchdog) {
				other := attachTo(context.Background(), t, watchdog.Run{ID: "s-2", StartedAt: time.Now()}, watchdog.Config{
					Store: &watchdog.Memory{}, SpendStore: &sameStore{store}, Scopes: team,
				})
				theirs := admit(t, other, tokens(600, 0))
				require.NoError(t, admit(t, wd, tokens(10, 0)).Settle(tokens(10, 0))) // it learns of them
				if c.freed {
					require.NoError(t, theirs.Void())
					require.NoError(t, other.Close())
				}
				_, granted, err := wd.AdmitWithin(context.Background(), "", tokens(50, 10), tokens(50, 600), 0)
				require.NoError(t, err)
				assert.Equal(t, c.granted.InputTokens, granted.InputTokens)
				assert.InDelta(t, c.granted.OutputTokens, granted.OutputTokens, 32, "a slice is a 64th of what is left")
				assert.False(t, hasFired(wd))
			})
		})
	}
}

// TestAdmitWithinTogether has agents share a cap: it is never exceeded, nobody waits for ever, and nearly all of it is
// used before a call is refused.
func TestAdmitWithinTogether(t *testing.T) {
	const limit = 100_000
	for seed := range uint64(40) {
		inRun(t, watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: limit}}}, func(t *testing.T, wd *watchdog.Watchdog) {
			var used atomic.Int64
			var agents sync.WaitGroup
			for agent := range uint64(8) {
				agents.Go(func() {
					rng := rand.New(rand.NewPCG(seed, agent))
					for {
						in := 500 + rng.Int64N(500)
						charge, granted, err := wd.AdmitWithin(context.Background(), "", tokens(in, 100), tokens(in, 9_000), 45*time.Second)
						if err != nil {
							if refused := (*watchdog.Refused)(nil); errors.As(err, &refused) {
								assert.Greater(t, used.Load()+in+100, int64(limit), "seed %d: there was room", seed)
								return
							}
							if errors.Is(err, context.DeadlineExceeded) {
								continue // a client tries again
							}
							assert.ErrorIs(t, err, watchdog.ErrEnded, "seed %d", seed)
							return
						}
						time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
						switch out := min(granted.OutputTokens, rng.Int64N(3000)); rng.IntN(10) {
						case 0:
							assert.NoError(t, charge.Void())
						default:
							used.Add(in + out)
							assert.NoError(t, charge.Settle(tokens(in, out)))
						}
					}
				})
			}
			agents.Wait()
			assert.LessOrEqual(t, used.Load(), int64(limit), "seed %d", seed)
			assert.Greater(t, used.Load(), int64(limit*98/100), "seed %d", seed)
		})
	}
}

// TestRefusedSmallest protects that nobody is told to make smaller what is as small as it can be.
func TestRefusedSmallest(t *testing.T) {
	refused := watchdog.Refused{Usage: watchdog.Usage{Run: "r", Limit: "requests", Used: 3, Allowed: 3, Needed: 1}}
	require.EqualError(t, &refused,
		"call of run r refused: requests: 0 of 3 left, and this call may need 1; extend the limit to make it")
	refused.Needed = 2
	require.EqualError(t, &refused,
		"call of run r refused: requests: 0 of 3 left, and this call may need 2; make it smaller, or extend the limit")
}
