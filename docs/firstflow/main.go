// Command firstflow starts the shop and the ERP of the page docs/first-flow.md: two small HTTP servers on
// loopback that keep what they have in memory.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

func main() {
	shop := flag.String("shop", "127.0.0.1:8081", "address of the shop")
	erp := flag.String("erp", "127.0.0.1:8082", "address of the ERP")
	flag.Parse()
	log.Printf("shop on http://%s, ERP on http://%s", *shop, *erp)
	go func() { log.Fatal(http.ListenAndServe(*shop, newShop("shop-secret", 30, 10*time.Second))) }()
	log.Fatal(http.ListenAndServe(*erp, newERP()))
}

type record = map[string]any

func answer(w http.ResponseWriter, status int, v record) {
	if v == nil {
		status, v = 404, record{"error": record{"message": "no such order"}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, record{"error": record{"message": message}})
}

// newShop has three orders. It takes limit calls in each window and answers 429 to more.
func newShop(token string, limit int, window time.Duration) http.Handler {
	orders := map[string]record{}
	put := func(id string, o record) {
		o["id"], _ = strconv.Atoi(id)
		o["updated_at"] = time.Now().UTC().Truncate(time.Microsecond)
		orders[id] = o
	}
	put("1001", record{"email": "ada@example.org", "total": "39.90", "currency": "EUR"})
	put("1002", record{"email": "", "total": "12.00", "currency": "EUR"})
	put("1003", record{"email": "grace@example.org", "total": "7.5", "currency": "EUR"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) { // ?updated_since=…&page=1, two on a page
		found, since := []record{}, time.Time{}
		_ = since.UnmarshalText([]byte(r.FormValue("updated_since"))) // RFC 3339; everything without it
		for _, id := range slices.Sorted(maps.Keys(orders)) {
			if o := orders[id]; !o["updated_at"].(time.Time).Before(since) {
				found = append(found, o)
			}
		}
		page, _ := strconv.Atoi(r.FormValue("page"))
		from := min(max(page-1, 0)*2, len(found))
		answer(w, 200, record{"data": found[from:min(from+2, len(found))], "total": len(found)})
	})
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, orders[r.PathValue("id")])
	})
	mux.HandleFunc("PUT /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		var o record
		if json.NewDecoder(r.Body).Decode(&o) == nil && o != nil {
			put(r.PathValue("id"), o)
		}
		answer(w, 200, orders[r.PathValue("id")])
	})
	began, used, mu := time.Time{}, 0, sync.Mutex{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+token {
			refuse(w, 401, "wrong token")
			return
		}
		if time.Since(began) > window {
			began, used = time.Now(), 0
		}
		used++
		reset := int(time.Until(began.Add(window)).Seconds()) + 1
		for name, n := range map[string]int{"Limit": limit, "Remaining": max(0, limit-used), "Reset": reset} {
			w.Header().Set("X-RateLimit-"+name, strconv.Itoa(n))
		}
		if used > limit {
			w.Header().Set("Retry-After", strconv.Itoa(reset))
			refuse(w, 429, "too many calls")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// newERP is empty at first. With POST /mood/down it answers 503, with /mood/forgetful it does the work and cuts the
// connection before it answers, and /mood/fine ends that.
func newERP() http.Handler {
	orders, mood, mu := []record{}, "fine", sync.Mutex{}
	write := func(w http.ResponseWriter, r *http.Request, id int) {
		var o record
		_ = json.NewDecoder(r.Body).Decode(&o)
		ref, _ := o["external_ref"].(string)
		if customer, _ := o["customer"].(string); customer == "" || ref == "" {
			refuse(w, 422, "customer and external_ref must not be empty")
			return
		}
		if slices.ContainsFunc(orders, func(other record) bool { return other["external_ref"] == ref && other["id"] != id }) {
			refuse(w, 409, "external_ref is taken")
			return
		}
		o["id"] = id
		orders = slices.Replace(orders, id-1, min(id, len(orders)), o)
		log.Printf("ERP: %s %s %s: %v", r.Method, r.URL.Path, ref, o)
		if mood == "forgetful" {
			panic(http.ErrAbortHandler)
		}
		answer(w, 200, o)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) { write(w, r, len(orders)+1) })
	mux.HandleFunc("PUT /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id, _ := strconv.Atoi(r.PathValue("id")); id < 1 || id > len(orders) {
			answer(w, 404, nil)
		} else {
			write(w, r, id)
		}
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) { // ?external_ref=…
		ref := r.FormValue("external_ref")
		other := func(o record) bool { return ref != "" && o["external_ref"] != ref }
		answer(w, 200, record{"orders": slices.DeleteFunc(slices.Clone(orders), other)})
	})
	mux.HandleFunc("POST /mood/{mood}", func(_ http.ResponseWriter, r *http.Request) { mood = r.PathValue("mood") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if mood == "down" && r.URL.Path != "/mood/fine" {
			refuse(w, 503, "closed for maintenance")
			return
		}
		mux.ServeHTTP(w, r)
	})
}
