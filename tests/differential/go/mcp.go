package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What ran since the last time, by the header X-Case of its request.
var (
	ranLock sync.Mutex
	ran     = map[string][]call{}
)

func note(req *mcp.CallToolRequest, arguments any) {
	ranLock.Lock()
	defer ranLock.Unlock()
	id := ""
	if req.Extra != nil {
		id = req.Extra.Header.Get("X-Case")
	}
	ran[id] = append(ran[id], call{req.Params.Name, arguments})
}

func takeRan() any {
	ranLock.Lock()
	defer ranLock.Unlock()
	taken := ran
	ran = map[string][]call{}
	return taken
}

// A tool whose arguments the SDK decodes.
func runTyped(_ context.Context, req *mcp.CallToolRequest, in arguments) (*mcp.CallToolResult, any, error) {
	note(req, in)
	return &mcp.CallToolResult{}, nil, nil
}

// A tool that decodes its arguments itself: into maps, or into a struct.
func runRaw(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var exact any
	var folded arguments
	if json.Unmarshal(req.Params.Arguments, &exact) == nil {
		note(req, exact)
	}
	if json.Unmarshal(req.Params.Arguments, &folded) == nil {
		note(req, folded)
	}
	return &mcp.CallToolResult{}, nil
}

func mcpServer() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "beside", Version: "1"}, nil)
	for _, name := range []string{"read_x", "write_note", "drop_db"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, runTyped)
	}
	for _, name := range []string{"read_raw", "write_raw", "drop_raw"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, runRaw)
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}
