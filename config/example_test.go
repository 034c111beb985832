package config_test

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func ExampleLoad() {
	limits, err := config.Load("testdata/limits.yaml", config.NoEnvironment)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("A session may take", limits.Budget.WallClock)
	fmt.Println(limits.WorstTime())
	for _, setting := range limits.Limits() {
		if setting.Source != "default" {
			fmt.Println(setting.Key, "is", setting.Value, "by", setting.Source)
		}
	}
	// Output:
	// A session may take 1h30m0s
	// worst time from the last sign of life to the cancel: 15m8s; for the last of 10,000 sessions: 83h30m8s
	// runtime_controls.session_wall_clock_seconds is 1h30m0s by testdata/limits.yaml:5
	// runtime_controls.warn_at is 0.5, 0.75 by testdata/limits.yaml:6
	// runtime_controls.reserve_seconds is 30.5s by testdata/limits.yaml:7
}

func ExampleParse_errors() {
	const text = "runtime_controls:\n  from_first_sign: yes\n"
	_, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
	fmt.Println(err)
	// Output:
	// limits.yaml:2: runtime_controls.from_first_sign: yes is neither true nor false; allowed: true or false
}

func ExampleLoader() {
	loader := config.Loader{Prefix: "AGENT_", Environment: []string{"AGENT_IDLE_TIMEOUT_SECOND=300"}}
	_, err := loader.Load("")
	fmt.Println(err)
	// Output:
	// environment AGENT_IDLE_TIMEOUT_SECOND: is not a variable that is read; did you mean AGENT_IDLE_TIMEOUT_SECONDS?
}

func ExampleConfig_stall() {
	const text = `
stall:
  no_output_timeout: 5m
  probe:
    command: [kubectl, get, deployment/web, -o, json]
    interval: 10s
  stall_threshold: 6
`
	c, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
	if err != nil {
		fmt.Println(err)
		return
	}
	sentinel := c.Stall // the host adds what a file cannot hold
	sentinel.Step = "rollout"
	sentinel.Store = &watchdog.Memory{}
	probe := sentinel.Probe
	fmt.Println("silent for", sentinel.NoOutput, "or the same", probe.StallThreshold, "times, one every", probe.Interval)
	// Output:
	// silent for 5m0s or the same 6 times, one every 10s
}

func ExampleConfig_disabled() {
	loader := config.Loader{Environment: []string{"WATCHDOG_DISABLED=true"}}
	c, err := loader.Load("testdata/limits.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("disabled:", c.Disabled, c.Stall.Disabled, c.Sweep.Disabled)
	fmt.Println(c.Limits()[0].Key, "by", c.Limits()[0].Source)
	// Output:
	// disabled: true true true
	// runtime_controls.disabled by environment WATCHDOG_DISABLED
}

func ExampleConfig_sweep() {
	const text = `
sweep:
  stalled_threshold: 20m
  startup_delay: 0
  alert_within: 10m
  alert_count: 20
  keeper:
    pace: 30s
`
	c, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
	if err != nil {
		fmt.Println(err)
		return
	}
	store := &session.Memory{} // or a store of store/sqlite or store/postgres
	c.Keeper.Store = store     // the host adds what a file cannot hold
	if c.Sweep.Alert.Within > 0 {
		c.Sweep.Alert.Func = func(_ context.Context, cancels int) { fmt.Println("many cancels:", cancels) }
	}
	_, err = sweep.New(store, store, c.Sweep)
	fmt.Println("stalled after", c.Sweep.StalledThreshold, err)
	_, err = session.NewKeeper(c.Keeper)
	fmt.Println("kept at least every", c.Keeper.Pace, "for sweepers after", c.Keeper.Threshold, err)
	// Output:
	// stalled after 20m0s <nil>
	// kept at least every 30s for sweepers after 20m0s <nil>
}

// A host runs the steps of its own workflow file, each under the stall settings that are in force for it.
func ExampleConfig_Step() {
	const text = `
defaults:
  stall:
    no_output_timeout: 15m
    on_stall: {action: interrupt, error_class: RETRYABLE_TRANSIENT}
steps:
  provision:
    stall:
      probe:
        command: |
          bash scripts/probe.sh --mode provision
        interval: 10s
      stall_threshold: 12
  report:
    stall: {enabled: false}
`
	c, err := config.Parse("workflow.yaml", []byte(text), config.NoEnvironment)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range c.Steps() {
		step := c.Step(name)
		sentinel := step.Stall // the host adds what a file cannot hold, such as RunID, Store and Artifacts
		fmt.Println(sentinel.Step, "disabled:", sentinel.Disabled, "silent for", sentinel.NoOutput, step.StallClass)
	}
	for _, s := range c.Step("provision").Limits()[1:5] {
		fmt.Println(s.Key, s.Value, s.Source)
	}
	// Output:
	// provision disabled: false silent for 15m0s RETRYABLE_TRANSIENT
	// report disabled: true silent for 15m0s RETRYABLE_TRANSIENT
	// steps.provision.stall.no_output_timeout 15m0s workflow.yaml:4
	// steps.provision.stall.activity_source output default
	// steps.provision.stall.probe.command sh and 2 arguments workflow.yaml:10
	// steps.provision.stall.probe.interval 10s workflow.yaml:12
}
