package otelwatchdog_test

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

// Attach a run with the instrument instead of watchdog.New.
func Example() {
	spans := tracetest.NewInMemoryExporter() // the host's exporter
	instrument, err := otelwatchdog.New(otelwatchdog.Config{
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	session := func(ctx context.Context) error {
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		wd, err := instrument.Attach(ctx, run, watchdog.Config{Store: &watchdog.Memory{}})
		if err != nil {
			return err
		}
		defer wd.Close()
		return phases(wd.Context()) // spans in it are children of the run's span
	}
	if err := session(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
		for _, a := range span.Attributes {
			fmt.Println(" ", a.Key, "=", a.Value.String())
		}
	}
	// Output:
	// watchdog.run
	//   watchdog.run.id = s-1
	//   watchdog.run.end = closed
}

func phases(ctx context.Context) error { return ctx.Err() }
