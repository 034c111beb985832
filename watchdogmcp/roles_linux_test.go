package watchdogmcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

func init() {
	roles = map[string]func([]string){
		"mcp-server": serve, "mcp-mute": func([]string) { stay() }, "mcp-grandchild": grandchild, "mcp-host": host,
	}
}

// stay does nothing for as long as a test may take.
func stay() { time.Sleep(5 * time.Minute) }

// serve is a server over standard input and output. With "stubborn" it ignores the end of its input and signals.
func serve(args []string) {
	fmt.Fprintln(os.Stderr, "the server is up")
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	for name, do := range serverTools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
	}
	if len(args) > 0 && args[0] == "stubborn" {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		defer stay()
	}
	_ = server.Run(context.Background(), &mcp.StdioTransport{})
}

// hangEnded is closed when the call of "hang" has ended: a test makes one.
var hangEnded = make(chan struct{})

var serverTools = map[string]tool{
	"answer": tools["answer"],
	"hang": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer close(hangEnded)
		return tools["hang"](ctx, req)
	},
	"ignore": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		stay()
		return answer("too late"), nil
	},
	"work": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return workUntil(ctx, req, hangEnded)
	},
	"exit":  func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(3); return nil, nil },
	"leave": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(0); return nil, nil },
	"panic": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("in a tool") },
	"kill": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	},
	"stop": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	},
	"quiet": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = os.Stdout.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"babble": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Println("hello")
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"grandchild": startGrandchild,
}

// startGrandchild starts a process in a session of its own, which has the server's output.
func startGrandchild(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	cmd := exec.Command(os.Args[0], "mcp-grandchild")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return answer(fmt.Sprint(cmd.Process.Pid)), nil
}

func grandchild([]string) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stay()
}

// host is an agent whose server has a grandchild. It says when it is ready, and stays.
func host(args []string) {
	ctx := context.Background()
	cmd := exec.Command(os.Args[0], "mcp-server")
	var transport mcp.Transport = &mcp.CommandTransport{Command: cmd}
	if strings.Join(args, "") == "guarded" {
		guarded, err := watchdogmcp.Command(ctx, cmd, stall.Config{Step: "files"})
		fail(err)
		transport = guarded
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, transport, nil)
	fail(err)
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "grandchild"})
	fail(err)
	fmt.Println("ready")
	stay()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(96)
	}
}
