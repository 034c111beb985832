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

// A run is attached through the instrument; otherwise nothing changes.
func Example() {
	spans := tracetest.NewInMemoryExporter() // what the host exports to
	instrument, err := otelwatchdog.New(otelwatchdog.Config{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		fmt.Println(err)
		return
	}
	session := func(ctx context.Context) error {
		wd, err := instrument.Attach(ctx, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{Store: &watchdog.Memory{}})
		if err != nil {
			return err
		}
		defer wd.Close()
		return phases(wd.Context()) // spans begun in it are children of the run's
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
