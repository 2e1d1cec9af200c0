package main

import (
	"io"
	"net/http"
	"path/filepath"
)

// The routes of ../routes.py, and its files below /files/.
func pathServer(directory string) http.Handler {
	mux := http.NewServeMux()
	routes := map[string]string{
		"POST /orders":                     "orders",
		"GET /orders/{id}":                 "order",
		"/admin/{rest...}":                 "admin",
		"/public/{rest...}":                "public",
		"GET /users/{name}":                "user",
		"POST /api/v1/items/{id}/approve":  "approve",
		"GET /repos/{owner}/{name}/secret": "repo",
	}
	for pattern, label := range routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, label)
		})
	}
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(filepath.Join(directory, "files")))))
	return mux
}
