package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// sourceFile is one parsed .go file.
type sourceFile struct {
	name  string // path below the root, with slashes
	room  string // folder of name; "" is the root
	test  bool
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

// sources parses the .go files below root, testdata and hidden folders apart.
func sources(root string) ([]sourceFile, error) {
	var files []sourceFile
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if p != root && (base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parseSource(filepath.ToSlash(rel), text)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

func parseSource(name string, text []byte) (sourceFile, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return sourceFile{}, err
	}
	room := path.Dir(name)
	if room == "." {
		room = ""
	}
	return sourceFile{
		name:  name,
		room:  room,
		test:  strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(string(text), "\n"),
		fset:  fset,
		ast:   parsed,
	}, nil
}

// check returns the findings of one file.
func (f *sourceFile) check() []string {
	var out []string
	report := func(pos token.Pos, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s:%d: %s", f.name, f.fset.Position(pos).Line, fmt.Sprintf(format, args...)))
	}
	for _, im := range f.ast.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			report(im.Pos(), "import path %s: %v", im.Path.Value, err)
			continue
		}
		if msg := checkImport(f.room, p, f.test); msg != "" {
			report(im.Pos(), "%s", msg)
		}
	}
	if f.test {
		return out
	}
	if f.lines > maxFileLines {
		report(f.ast.Pos(), "%d lines, want at most %d", f.lines, maxFileLines)
	}
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.checkFunc(d, report)
		case *ast.GenDecl:
			f.checkGen(d, report)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && readsEnvironment(sel) && !mayReadEnvironment(f.room) {
			report(n.Pos(), "os.%s: the environment is read in cmd only", sel.Sel.Name)
		}
		return true
	})
	return out
}

func readsEnvironment(sel *ast.SelectorExpr) bool {
	pkg, ok := sel.X.(*ast.Ident)
	if !ok || pkg.Name != "os" {
		return false
	}
	switch sel.Sel.Name {
	case "Getenv", "LookupEnv", "Environ", "ExpandEnv", "UserHomeDir", "UserCacheDir", "UserConfigDir":
		return true
	}
	return false
}

func (f *sourceFile) checkFunc(d *ast.FuncDecl, report func(token.Pos, string, ...any)) {
	name := d.Name.Name
	if n := funcLines(f.fset, d); n > maxFuncLines {
		report(d.Pos(), "%s: %d lines, want at most %d", name, n, maxFuncLines)
	}
	if n := d.Type.Params.NumFields(); n > maxParams {
		report(d.Pos(), "%s: %d parameters, want at most %d", name, n, maxParams)
	}
	if name == "init" && d.Recv == nil && !belowAny(f.room, initFunctions) {
		report(d.Pos(), "init function outside %s", strings.Join(initFunctions, ", "))
	}
	if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !selfEvident(d) && !below(f.room, "cmd") {
		report(d.Pos(), "%s: exported without a comment", name)
	}
}

func funcLines(fset *token.FileSet, d *ast.FuncDecl) int {
	return fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
}

// selfEvident reports whether d is a method whose meaning the standard library fixes.
func selfEvident(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	switch d.Name.Name {
	case "Error", "Unwrap", "String", "Len", "Less", "Swap":
		return true
	}
	return false
}

// exportedReceiver reports whether d is a function or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func (f *sourceFile) checkGen(d *ast.GenDecl, report func(token.Pos, string, ...any)) {
	if d.Tok != token.TYPE || below(f.room, "cmd") {
		return
	}
	for _, s := range d.Specs {
		if t, ok := s.(*ast.TypeSpec); ok && t.Name.IsExported() && d.Doc == nil && t.Doc == nil {
			report(t.Pos(), "%s: exported without a comment", t.Name.Name)
		}
	}
}

// checkRooms returns the packages that have no doc.go.
func checkRooms(files []sourceFile) []string {
	has := map[string]bool{}
	for _, f := range files {
		if !f.test {
			has[f.room] = has[f.room] || path.Base(f.name) == "doc.go"
		}
	}
	var out []string
	for room, ok := range has {
		if !ok {
			out = append(out, room+": no doc.go")
		}
	}
	sort.Strings(out)
	return out
}
