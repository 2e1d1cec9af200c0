// Readers of Go: encoding/json, net/http and the MCP SDK. See ../beside.py for the protocol.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
)

type question struct {
	Kind  string   `json:"kind"`
	Items []string `json:"items"` // in hexadecimal digits
}

// What a server runs.
type call struct {
	Tool      string `json:"tool"`
	Arguments any    `json:"arguments"`
}

func main() {
	ports := map[string]int{
		"mcp":   serve(mcpServer()),
		"paths": serve(pathServer(os.Args[1])),
		"forms": serve(http.HandlerFunc(tellForm)),
	}
	readers := map[string]func([]byte) any{
		"structs":       readStructs,
		"decoder":       readDecoder,
		"maps":          readMaps,
		"model-structs": readModelStruct,
		"model-maps":    readValue,
		"queries":       readQuery,
		"normal":        func(b []byte) any { return []string{path.Clean(string(b))} },
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		var answer any
		switch q.Kind {
		case "ports":
			answer = ports
		case "ran":
			answer = takeRan()
		default:
			answer = each(readers[q.Kind], q.Items)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(out, "%s\n", text)
		out.Flush()
	}
}

func each(reader func([]byte) any, items []string) []any {
	answers := make([]any, len(items))
	for i, item := range items {
		data, err := hex.DecodeString(item)
		if err != nil {
			panic(err)
		}
		answers[i] = reader(data)
	}
	return answers
}

func serve(handler http.Handler) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, handler)
	return listener.Addr().(*net.TCPAddr).Port
}

func tell(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

// The names that a query has. What is wrong in it is left out, as net/http does.
func readQuery(text []byte) any {
	values, _ := url.ParseQuery(string(text))
	return values
}

func tellForm(w http.ResponseWriter, r *http.Request) {
	r.ParseMultipartForm(1 << 20)
	values := map[string][]string{}
	for name, all := range r.PostForm {
		values[name] = all
	}
	tell(w, values)
}
