package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// page gives the YAML blocks of the page.
func page(t *testing.T) (blocks []string) {
	text, err := os.ReadFile("../first-flow.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of YAML, want the configuration and the line that is changed", len(blocks))
	}
	return blocks
}

// walk is a folder in which the page is followed.
type walk struct {
	t                 *testing.T
	dir, syncd        string
	shop, erp         *httptest.Server
	config, newConfig string
}

func setOut(t *testing.T) *walk {
	w := &walk{t: t, dir: t.TempDir(), shop: httptest.NewServer(newShop("shop-secret", 30, 10*time.Second)), erp: httptest.NewServer(newERP())}
	t.Cleanup(w.shop.Close)
	t.Cleanup(w.erp.Close)
	blocks := page(t)
	old := "        customer: .email,\n"
	if strings.Count(blocks[0], old) != 1 {
		t.Fatalf("the configuration does not have the line %q that the page changes", old)
	}
	local := strings.NewReplacer("http://127.0.0.1:8081", w.shop.URL, "http://127.0.0.1:8082", w.erp.URL, "journal: ", "listen: \"off\"\njournal: ")
	w.config = local.Replace(blocks[0])
	w.newConfig = strings.Replace(w.config, old, blocks[1], 1)
	w.syncd = filepath.Join(w.dir, "syncd")
	build := exec.Command("go", "build", "-o", w.syncd, "../../cmd/syncd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return w
}

func (w *walk) write(config string) {
	if err := os.WriteFile(filepath.Join(w.dir, "syncd.yaml"), []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) command(args ...string) *exec.Cmd {
	c := exec.Command(w.syncd, args...)
	c.Dir, c.Env = w.dir, append(os.Environ(), "SHOP_TOKEN=shop-secret")
	return c
}

// run starts the daemon and gives what kills it.
func (w *walk) run() (kill func()) {
	c := w.command("run")
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	w.t.Cleanup(func() {
		kill()
		if w.t.Failed() {
			w.t.Logf("the daemon:\n%s", log.String())
		}
	})
	return kill
}

// await calls a command until its output holds a text.
func (w *walk) await(want string, args ...string) {
	w.t.Helper()
	var out []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if out, _ = w.command(args...).CombinedOutput(); bytes.Contains(out, []byte(want)) {
			return
		}
	}
	w.t.Fatalf("syncd %s says\n%s\nand not %q", strings.Join(args, " "), out, want)
}

func (w *walk) send(method, url, body string) (answer string) {
	w.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer shop-secret")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != 200 {
		w.t.Fatalf("%s %s: %d %v", method, url, resp.StatusCode, err)
	}
	return b.String()
}

func TestThePageCanBeFollowed(t *testing.T) {
	w := setOut(t)
	w.write(w.config)
	w.await("ok          erp flow orders: 2 records read and mapped", "check", "--live")
	kill := w.run()
	w.await("customer and external_ref must not be empty", "explain", "orders/WEB-1002")
	w.await("orders/WEB-1003  done", "jobs", "list")

	kill()
	w.write(w.newConfig)
	kill = w.run()
	w.await("orders/WEB-1002 is done", "explain", "orders/WEB-1002") // it is read again within the overlap

	w.send("POST", w.erp.URL+"/mood/forgetful", "")
	w.send("PUT", w.shop.URL+"/orders/1005", `{"email":"alan@example.org","total":"6","currency":"EUR"}`)
	w.await("is in doubt", "explain", "orders/WEB-1005")
	kill()
	w.send("POST", w.erp.URL+"/mood/fine", "")
	w.run()
	w.await("orders/WEB-1005 is done", "explain", "orders/WEB-1005")

	var got struct {
		Orders []struct {
			Ref             string `json:"external_ref"`
			Customer, Total string
		}
	}
	if err := json.Unmarshal([]byte(w.send("GET", w.erp.URL+"/orders", "")), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range got.Orders {
		found[o.Ref] += o.Customer + " " + o.Total
	}
	want := map[string]string{"WEB-1001": "ada@example.org 39.90", "WEB-1002": "guest 12.00", "WEB-1003": "grace@example.org 7.50", "WEB-1005": "alan@example.org 6.00"}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("the ERP has\n%v\nwant\n%v", found, want)
	}
}
