package watchdogmcp_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// connectServer returns one end of a connection to a server with a tool that hangs.
func connectServer(ctx context.Context) (mcp.Transport, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done() // the server is told
			return nil, ctx.Err()
		})
	here, there := mcp.NewInMemoryTransports()
	_, err := server.Connect(ctx, there, nil)
	return here, err
}

// A tool that hangs ends at its limit, and the agent goes on with an answer that its model can act on.
func ExampleGuard() {
	agent := func(ctx context.Context, _ *watchdog.Watchdog) error {
		client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
		watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Limit: 100 * time.Millisecond}}).Attach(client)
		transport, err := connectServer(ctx)
		if err != nil {
			return err
		}
		session, err := client.Connect(ctx, transport, nil)
		if err != nil {
			return err
		}
		defer session.Close()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "search"})
		if err != nil {
			return err
		}
		fmt.Println(result.IsError)
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
		return nil
	}
	quiet := slog.New(slog.DiscardHandler)
	err := watchdog.Do(context.Background(), watchdog.Run{}, watchdog.Config{Logger: quiet}, agent)
	fmt.Println(err)
	// Output:
	// true
	// The call of the tool "search" was ended: it did not finish within its limit of 100ms. It was told to stop, but may still be running. Look at what is there before you call it again, and then with less to do or in another way.
	// <nil>
}

// serve is a server over standard input and output, as which this program is started.
func serve() {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "nothing"}}}, nil
		})
	_ = server.Run(context.Background(), &mcp.StdioTransport{})
}

// A server that is a command runs under package stall: when its context ends, or the host dies, nothing is left of all
// that it started, also what left its session.
func Example_command() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	command, err := stall.NewCommand(exec.Command(os.Args[0], "serve"), stall.Config{Step: "files"})
	if err != nil {
		fmt.Println(err)
		return
	}
	in, _ := command.StdinPipe()
	out, _ := command.StdoutPipe()
	if err := command.Start(ctx); err != nil { // with the context of a run the server ends with the run
		fmt.Println(err)
		return
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	watchdogmcp.New(watchdogmcp.Config{}).Attach(client)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "search"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	_ = session.Close() // the end of its input, at which a server exits by itself; stop does not ask
	_, err = command.Wait()
	fmt.Println(err)
	// Output:
	// nothing
	// <nil>
}
