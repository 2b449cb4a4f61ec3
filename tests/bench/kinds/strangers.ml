(* The programs of strangers.rly in OCaml.  strangers NAME N  prints the result and the least time in ms. *)
let next s = (s * 1103 + 12345) mod 1000003
let rec rev l acc = match l with x :: r -> rev r (x :: acc) | [] -> acc
let rec each f l = match l with x :: r -> let y = f x in y :: each f r | [] -> []
let rec fold f z l = match l with x :: r -> fold f (f z x) r | [] -> z
let rec keep f l = match l with x :: r -> if f x then x :: keep f r else keep f r | [] -> []
let rec append a b = match a with x :: r -> x :: append r b | [] -> b
let rec count l n = match l with _ :: r -> count r (n + 1) | [] -> n
let rec numbers i s acc = if i = 0 then acc else numbers (i - 1) (next s) (next s :: acc)
let hash l = fold (fun a x -> (a * 31 + x) mod 1000003) 7 l

type avl = Nowhere | Avl of int * avl * int * int * avl
let height = function Nowhere -> 0 | Avl (h, _, _, _, _) -> h
let avl_of l k v r = let a = height l and b = height r in Avl ((if a > b then a + 1 else b + 1), l, k, v, r)
let level l k v r =
  let a = height l and b = height r in
  if a > b + 1 then
    match l with
    | Avl (_, ll, lk, lv, lr) -> if height ll >= height lr then avl_of ll lk lv (avl_of lr k v r) else
      (match lr with Avl (_, m, mk, mv, n) -> avl_of (avl_of ll lk lv m) mk mv (avl_of n k v r) | Nowhere -> Nowhere)
    | Nowhere -> Nowhere
  else if b > a + 1 then
    match r with
    | Avl (_, rl, rk, rv, rr) -> if height rr >= height rl then avl_of (avl_of l k v rl) rk rv rr else
      (match rl with Avl (_, m, mk, mv, n) -> avl_of (avl_of l k v m) mk mv (avl_of n rk rv rr) | Nowhere -> Nowhere)
    | Nowhere -> Nowhere
  else avl_of l k v r
let rec avl_put t (k : int) v = match t with
  | Nowhere -> Avl (1, Nowhere, k, v, Nowhere)
  | Avl (h, l, x, y, r) -> if k = x then Avl (h, l, k, v, r) else if k < x then level (avl_put l k v) x y r else level l x y (avl_put r k v)
let rec avl_get t (k : int) = match t with Nowhere -> None | Avl (_, l, x, y, r) -> if k = x then Some y else avl_get (if k < x then l else r) k
let rec avl_fill i s t = if i = 0 then t else avl_fill (i - 1) (next s) (avl_put t (s mod 5000) i)
let rec avl_sum i s t acc = if i = 0 then acc else avl_sum (i - 1) (next s) t ((acc * 3 + match avl_get t (s mod 7000) with Some v -> v | None -> 1) mod 1000003)
let avl n = avl_sum n 99 (avl_fill n 42 Nowhere) 0

type trie = Trie of int option * (int * trie) list
let rec branch_put (k : int) rest v b = match b with
  | [] -> [ (k, trie_put rest v (Trie (None, []))) ]
  | (j, t) :: r -> if j = k then (j, trie_put rest v t) :: r else (j, t) :: branch_put k rest v r
and trie_put key v t = match key, t with [], Trie (_, b) -> Trie (Some v, b) | k :: rest, Trie (o, b) -> Trie (o, branch_put k rest v b)
let rec branch (k : int) b = match b with [] -> None | (j, t) :: r -> if j = k then Some t else branch k r
let rec trie_get key t = match key, t with [], Trie (o, _) -> o | k :: rest, Trie (_, b) -> (match branch k b with Some u -> trie_get rest u | None -> None)
let rec key n = if n = 0 then [] else (n mod 6) :: key (n / 6)
let rec trie_fill i s t = if i = 0 then t else trie_fill (i - 1) (next s) (trie_put (key (s mod 3000)) i t)
let rec trie_sum i s t acc = if i = 0 then acc else trie_sum (i - 1) (next s) t ((acc * 3 + match trie_get (key (s mod 4000)) t with Some v -> v | None -> 1) mod 1000003)
let trie n = trie_sum n 5 (trie_fill n 42 (Trie (None, []))) 0

let pure a = fun s -> Some (a, s)
let bind p f = fun s -> match p s with None -> None | Some (a, r) -> f a r
let either p q = fun s -> match p s with None -> q s | Some x -> Some x
let sat f = fun s -> match s with c :: r -> if f c then Some (c, r) else None | [] -> None
let char (k : int) = sat (fun c -> c = k)
let rec many p acc = fun s -> match p s with None -> Some (acc, s) | Some (d, r) -> many p ((acc * 10 + d - 48) mod 10007) r
let digit () = sat (fun c -> c >= 48 && c <= 57)
let integer () = bind (digit ()) (fun d -> many (digit ()) (d - 48))
let rec factor s = (either (integer ()) (bind (char 40) (fun _ -> bind expression (fun v -> bind (char 41) (fun _ -> pure v))))) s
and term s = (bind factor (fun a -> either (bind (char 42) (fun _ -> bind term (fun b -> pure (a * b mod 10007)))) (pure a))) s
and expression s = (bind term (fun a -> either (bind (char 43) (fun _ -> bind expression (fun b -> pure ((a + b) mod 10007)))) (pure a))) s
let rec text i =
  if i = 0 then [ 49 ] else
    let d = 48 + i mod 10 in
    if i mod 5 = 0 then 40 :: d :: 43 :: d :: 41 :: 42 :: text (i - 1) else d :: d :: (if i mod 3 = 0 then 42 else 43) :: text (i - 1)
let parsers n = match expression (text n) with Some (v, r) -> v + count r 0 | None -> -1

type ty = Var of int | Arrow of ty * ty | Int | Both of ty * ty
type lam = Use of int | Fun of lam | Apply of lam * lam | Number of int | Pair of lam * lam | Let of lam * lam
let rec assoc (k : int) l = match l with (j, v) :: r -> if j = k then Some v else assoc k r | [] -> None
let rec walk t s = match t with Var v -> (match assoc v s with Some u -> walk u s | None -> t) | _ -> t
let rec occurs (v : int) t s = match walk t s with
  | Var w -> v = w | Int -> false
  | Arrow (a, b) -> if occurs v a s then true else occurs v b s
  | Both (a, b) -> if occurs v a s then true else occurs v b s
let rec unify a b s = match walk a s, walk b s with
  | Int, Int -> s
  | Var v, Var w -> if v = w then s else (v, Var w) :: s
  | Var v, t -> if occurs v t s then s else (v, t) :: s
  | t, Var v -> if occurs v t s then s else (v, t) :: s
  | Arrow (c, d), Arrow (e, f) -> unify d f (unify c e s)
  | Both (c, d), Both (e, f) -> unify d f (unify c e s)
  | _ -> s
let rec nth l i = match l with t :: r -> if i = 0 then t else nth r (i - 1) | [] -> Int
let rec infer e env s n = match e with
  | Use i -> (nth env i, s, n)
  | Number _ -> (Int, s, n)
  | Fun b -> let t, s, m = infer b (Var n :: env) s (n + 1) in (Arrow (Var n, t), s, m)
  | Apply (f, a) -> let x, s, n = infer f env s n in let y, s, n = infer a env s n in (Var n, unify x (Arrow (y, Var n)) s, n + 1)
  | Pair (a, b) -> let x, s, n = infer a env s n in let y, s, n = infer b env s n in (Both (x, y), s, n)
  | Let (a, b) -> let x, s, n = infer a env s n in infer b (x :: env) s n
let rec size t s = match walk t s with Var _ -> 1 | Int -> 2 | Arrow (a, b) -> (size a s * 3 + size b s) mod 10007 | Both (a, b) -> (size a s * 5 + size b s) mod 10007
let rec lam d i =
  if d = 0 then if i mod 3 = 0 then Number i else Use (i mod 2)
  else match (i + d) mod 4 with
    | 0 -> Fun (lam (d - 1) (i + 1))
    | 1 -> Apply (Fun (lam (d - 1) i), lam (d - 1) (i + 2))
    | 2 -> Pair (lam (d - 1) i, lam (d - 1) (i + 3))
    | _ -> Let (lam (d - 1) (i + 1), lam (d - 1) (i + 2))
let types n = let t, s, m = infer (lam n 1) [] [] 0 in (size t s + m) mod 10007

let apart ((a : int), (b : int)) (c, d) = a = c && b = d
let rec is_in p l = match l with q :: r -> if apart p q then true else is_in p r | [] -> false
let jumps (x, y) n seen =
  keep (fun ((a, b) as q) -> if a >= 0 && a < n && b >= 0 && b < n then not (is_in q seen) else false)
    (each (fun (c, d) -> (x + c, y + d)) [ (1, 2); (2, 1); (2, -1); (1, -2); (-1, -2); (-2, -1); (-2, 1); (-1, 2) ])
let rec tours l n left seen acc = match l with [] -> acc | p :: r -> tours r n left seen (tour p n (left - 1) (p :: seen) acc)
and tour p n left seen acc = if left = 0 then acc + 1 else tours (jumps p n seen) n left seen acc
let knight n = tour (0, 0) 5 n [ (0, 0) ] 0

type pairing = Bare | Top of int * pairing list
let merge a b = match a, b with Bare, _ -> b | _, Bare -> a | Top (x, c), Top (y, d) -> if x <= y then Top (x, b :: c) else Top (y, a :: d)
let rec merge_all l = match l with [] -> Bare | [ a ] -> a | a :: b :: r -> merge (merge a b) (merge_all r)
let rec drain h acc = match h with Bare -> acc | Top (x, c) -> drain (merge_all c) ((acc * 31 + x) mod 1000003)
let pairing n = drain (fold (fun h x -> merge (Top (x, [])) h) Bare (numbers n 7 [])) 0

type expr = Con of int | Name of int | Add of expr * expr | Sub of expr * expr | Mul of expr * expr | Lt of expr * expr
type stmt = Assign of int * expr | While of expr * stmt | Seq of stmt * stmt | Cond of expr * stmt * stmt | Skip
let rec lookup (k : int) env = match env with (j, v) :: r -> if j = k then v else lookup k r | [] -> 0
let rec update (k : int) v env = match env with [] -> [ (k, v) ] | (j, w) :: r -> if j = k then (k, v) :: r else (j, w) :: update k v r
let rec eval e env = match e with
  | Con k -> k | Name k -> lookup k env
  | Add (a, b) -> let x = eval a env in (x + eval b env) mod 1000003 | Sub (a, b) -> let x = eval a env in x - eval b env
  | Mul (a, b) -> let x = eval a env in x * eval b env mod 10007 | Lt (a, b) -> let x = eval a env in if x < eval b env then 1 else 0
let rec exec s env = match s with
  | Assign (k, e) -> update k (eval e env) env
  | While (c, b) -> if eval c env = 0 then env else exec s (exec b env)
  | Seq (a, b) -> exec b (exec a env)
  | Cond (c, a, b) -> if eval c env = 0 then exec b env else exec a env
  | Skip -> env
let interp n =
  let body = Seq (Assign (1, Add (Mul (Name 1, Con 3), Name 0)), Seq (Cond (Lt (Name 1, Con 5000), Assign (2, Add (Name 2, Con 1)), Assign (3, Sub (Name 3, Name 1))), Assign (0, Sub (Name 0, Con 1)))) in
  let env = exec (Seq (Assign (1, Con 7), Seq (Assign (0, Con n), While (Lt (Con 0, Name 0), body)))) [] in
  lookup 1 env + lookup 2 env

let edges i n = [ ((i * 7 + 3) mod n, i mod 13 + 1); ((i * 5 + 1) mod n, i mod 7 + 2); ((i + 1) mod n, 20) ]
let rec graph i n = if i = n then [] else (i, edges i n) :: graph (i + 1) n
let rec into (d : int) (v : int) q = match q with (e, w) :: r -> if d <= e then (d, v) :: q else (e, w) :: into d v r | [] -> [ (d, v) ]
let rec search q don g = match q with
  | [] -> don
  | (d, v) :: r -> match assoc v don with
    | Some _ -> search r don g
    | None ->
      let out = match assoc v g with Some l -> l | None -> [] in
      search (fold (fun q (w, c) -> into (d + c) w q) r out) ((v, d) :: don) g
let dijkstra n = fold (fun a (v, d) -> (a + v * d) mod 1000003) 0 (search [ (0, 0) ] [] (graph 0 n))

let rec halves l a b = match l with [] -> (a, b) | x :: r -> halves r (x :: b) a
let rec weave less a b = match a, b with [], _ -> b | _, [] -> a | x :: r, y :: s -> if less y x then y :: weave less a s else x :: weave less r b
let rec sort less l = match l with [] -> [] | [ _ ] -> l | _ -> let a, b = halves l [] [] in let a = sort less a in weave less a (sort less b)
let sorts n =
  let l = each (fun x -> (x mod 100, x)) (numbers n 17 []) in
  fold (fun h (a, b) -> (h * 31 + a + b) mod 1000003) 0 (sort (fun ((a : int), (b : int)) (c, d) -> if a = c then b < d else a < c) l)

type 'a bin = Empty | Bin of 'a bin * 'a * 'a bin
let rec bin_fold f z t = match t with Empty -> z | Bin (l, x, r) -> let a = bin_fold f z l in f a x (bin_fold f z r)
let rec bin_map f t = match t with Empty -> Empty | Bin (l, x, r) -> let a = bin_map f l in let y = f x in Bin (a, y, bin_map f r)
let rec bin_of d x = if d = 0 then Empty else Bin (bin_of (d - 1) ((x * 3 + 1) mod 1009), x, bin_of (d - 1) ((x * 5 + 2) mod 1009))
let better a b = match a, b with None, _ -> b | _, None -> a | Some ((x : int), (i : int)), Some (y, j) -> Some ((if x > y then x else y), if i < j then i else j)
let folds n =
  let t = bin_map (fun x -> (x * 2, x + 1)) (bin_of n 1) in
  match bin_fold (fun l x r -> better l (better (Some x) r)) None t with Some (a, b) -> (a * 31 + b) mod 10007 | None -> 0

type planet = Planet of float * float * float * float * float
let pull (Planet (x, y, _, _, _)) l =
  fold (fun (a, b) (Planet (u, v, _, _, m)) ->
      let dx = u -. x and dy = v -. y in
      let d = dx *. dx +. dy *. dy +. 0.01 in
      let k = m /. (d *. d) in
      (a +. dx *. k, b +. dy *. k)) (0., 0.) l
let move l = each (fun (Planet (x, y, u, v, m) as p) ->
    let a, b = pull p l in
    let u2 = u +. a *. 0.01 and v2 = v +. b *. 0.01 in Planet (x +. u2 *. 0.01, y +. v2 *. 0.01, u2, v2, m)) l
let rec moves n l = if n = 0 then l else moves (n - 1) (move l)
let rec planets i = if i = 0 then [] else let x = float i in Planet (x, x *. x *. 0.5, 0.1, 0.2 -. x *. 0.1, 1. +. x) :: planets (i - 1)
let bodies n = int_of_float (fold (fun a (Planet (x, y, _, _, _)) -> a +. x *. 100. +. y) 0. (moves n (planets 6)))

let rec spin i c l = if i = 0 then !c else begin
    c := (!c * 3 + i) mod 1000003;
    if i mod 4 = 0 then l := !c :: !l;
    spin (i - 1) c l
  end
let refs n = let c = ref 0 and l = ref [] in let x = spin n c l in x + hash !l

let rec runs (l : int list) = match l with [] -> [] | x :: r -> match runs r with (y, n) :: s -> if x = y then (y, n + 1) :: s else (x, 1) :: (y, n) :: s | [] -> [ (x, 1) ]
let rec copies n x l = if n = 0 then l else copies (n - 1) x (x :: l)
let rec unroll l = match l with [] -> [] | (x, n) :: r -> copies n x (unroll r)
let rec same (a : int list) b = match a, b with x :: r, y :: s -> if x = y then same r s else false | [], [] -> true | _ -> false
let rec palindromes i n acc = if i = n then acc else let k = key i in palindromes (i + 1) n (if same k (rev k []) then acc + 1 else acc)
let texts n = let l = each (fun x -> x / 7 mod 3) (numbers n 5 []) in let r = runs l in (hash (unroll r) + count r 0) mod 1000003 + palindromes 0 n 0

let alive p l = if is_in p l then 1 else 0
let around (x, y) = [ (x - 1, y - 1); (x - 1, y); (x - 1, y + 1); (x, y - 1); (x, y + 1); (x + 1, y - 1); (x + 1, y); (x + 1, y + 1) ]
let beside p l = fold (fun n q -> n + alive q l) 0 (around p)
let rec once l acc = match l with [] -> acc | p :: r -> once r (if is_in p acc then acc else p :: acc)
let generation l =
  let stay = keep (fun p -> let n = beside p l in n = 2 || n = 3) l in
  let near = once (fold (fun a p -> append (around p) a) [] l) [] in
  append stay (keep (fun p -> if is_in p l then false else beside p l = 3) near)
let rec generations n l = if n = 0 then l else generations (n - 1) (generation l)
let life n =
  let l = generations n [ (0, 1); (0, 2); (1, 0); (1, 1); (2, 1) ] in
  fold (fun a (x, y) -> a + x * 3 + y * 5) (count l 0 * 1000) l

let rec tak x y z = if y < x then tak (tak (x - 1) y z) (tak (y - 1) z x) (tak (z - 1) x y) else z
let takes n = tak n 8 4

type sym = X | K of int | Sum of sym * sym | Prod of sym * sym | Pow of sym * int
let rec diff e = match e with
  | X -> K 1 | K _ -> K 0 | Sum (a, b) -> Sum (diff a, diff b) | Prod (a, b) -> Sum (Prod (diff a, b), Prod (a, diff b))
  | Pow (a, n) -> Prod (Prod (K n, Pow (a, n - 1)), diff a)
let rec simple e = match e with
  | Sum (a, b) -> (match simple a, simple b with K m, K n -> K ((m + n) mod 10007) | K m, x -> if m = 0 then x else Sum (K m, x) | x, K m -> if m = 0 then x else Sum (K m, x) | x, y -> Sum (x, y))
  | Prod (a, b) -> (match simple a, simple b with
      | K m, K n -> K (m * n mod 10007)
      | K m, x -> if m = 0 then K 0 else if m = 1 then x else Prod (K m, x)
      | x, K m -> if m = 0 then K 0 else if m = 1 then x else Prod (K m, x)
      | x, y -> Prod (x, y))
  | Pow (a, n) -> if n = 0 then K 1 else if n = 1 then simple a else Pow (simple a, n)
  | _ -> e
let rec weigh e = match e with X -> 1 | K k -> k | Sum (a, b) -> (weigh a * 3 + weigh b) mod 10007 | Prod (a, b) -> (weigh a * 5 + weigh b) mod 10007 | Pow (a, n) -> (weigh a * 7 + n) mod 10007
let rec derive i e = if i = 0 then e else derive (i - 1) (simple (diff e))
let symbols n = weigh (derive n (Prod (Pow (Sum (X, K 1), 7), Sum (Prod (X, Pow (X, 3)), Prod (K 2, Sum (X, K 5))))))

let rec digits_times l k carry = match l with
  | [] -> if carry = 0 then [] else (carry mod 10000) :: digits_times [] k (carry / 10000)
  | d :: r -> let v = d * k + carry in (v mod 10000) :: digits_times r k (v / 10000)
let rec factorial i n acc = if i > n then acc else factorial (i + 1) n (digits_times acc i 0)
let bignum n = hash (factorial 1 n [ 1 ])

type regex = Fail | Eps | Chr of int | Alt of regex * regex | Cat of regex * regex | Star of regex
let rec nullable r = match r with Fail -> false | Eps -> true | Chr _ -> false | Alt (a, b) -> nullable a || nullable b | Cat (a, b) -> nullable a && nullable b | Star _ -> true
let alt a b = match a, b with Fail, _ -> b | _, Fail -> a | _ -> Alt (a, b)
let cat a b = match a, b with Fail, _ -> Fail | _, Fail -> Fail | Eps, _ -> b | _, Eps -> a | _ -> Cat (a, b)
let rec deriv (c : int) r = match r with
  | Fail -> Fail | Eps -> Fail | Chr d -> if c = d then Eps else Fail
  | Alt (a, b) -> let x = deriv c a in alt x (deriv c b)
  | Cat (a, b) -> if nullable a then let x = cat (deriv c a) b in alt x (deriv c b) else cat (deriv c a) b
  | Star a -> cat (deriv c a) r
let rec matches s r = match s with [] -> nullable r | c :: t -> matches t (deriv c r)
let rec regexes i n r acc = if i = n then acc else regexes (i + 1) n r (if matches (key i) r then (acc * 3 + i) mod 10007 else acc)
let regex n = regexes 0 n (Cat (Star (Alt (Chr 0, Alt (Chr 1, Cat (Chr 2, Chr 3)))), Alt (Cat (Chr 4, Star (Chr 1)), Cat (Chr 5, Star (Alt (Chr 2, Chr 0)))))) 0

let rec quick l = match l with [] -> [] | (p : int) :: r -> append (quick (keep (fun x -> x < p) r)) (p :: quick (keep (fun x -> x >= p) r))
let quicks n = hash (quick (numbers n 3 []))

let ret a = fun s -> (a, s)
let and_then m f = fun s -> let a, s = m s in f a s
let rec label t = match t with
  | Empty -> ret Empty
  | Bin (l, x, r) -> and_then (label l) (fun a -> and_then (fun s -> ((s * 5 + x) mod 1009, s + 1)) (fun k -> and_then (label r) (fun b -> ret (Bin (a, k, b)))))
let monad n = bin_fold (fun l x r -> (l * 3 + x + r * 5) mod 10007) 1 (fst (label (bin_of n 1) 0))

type cell = Gone | At of int * (unit -> cell)
let rec integers k = At (k, fun () -> integers (k + 1))
let rec without p s = match s with Gone -> Gone | At (x, f) -> if x mod p = 0 then without p (f ()) else At (x, fun () -> without p (f ()))
let rec sieve s = match s with Gone -> Gone | At (p, f) -> At (p, fun () -> sieve (without p (f ())))
let rec prime s n acc = match s with Gone -> acc | At (p, f) -> if n = 0 then (acc * 31 + p) mod 1000003 else prime (f ()) (n - 1) ((acc * 31 + p) mod 1000003)
let primes n = prime (sieve (integers 2)) n 0

type deque = Deque of int * int list * int * int list
let rec some n l = if n = 0 then [] else match l with x :: r -> x :: some (n - 1) r | [] -> []
let rec less_of n l = if n = 0 then l else match l with _ :: r -> less_of (n - 1) r | [] -> []
let even (Deque (a, f, b, r) as q) =
  if a > 3 * b + 1 then let i = (a + b) / 2 in Deque (i, some i f, a + b - i, append r (rev (less_of i f) []))
  else if b > 3 * a + 1 then let j = (a + b) / 2 in Deque (a + b - j, append f (rev (less_of j r) []), j, some j r)
  else q
let front x (Deque (a, f, b, r)) = even (Deque (a + 1, x :: f, b, r))
let back = function
  | Deque (a, f, b, x :: r) -> Some (x, even (Deque (a, f, b - 1, r)))
  | Deque (_, x :: _, _, []) -> Some (x, Deque (0, [], 0, []))
  | _ -> None
let rec work i q acc =
  if i = 0 then acc
  else if i mod 3 = 0 then match back q with Some (x, r) -> work (i - 1) r ((acc * 31 + x) mod 1000003) | None -> work (i - 1) q (acc + 1)
  else work (i - 1) (front i q) acc
let deque n = work n (Deque (0, [], 0, [])) 0

let () =
  let n = int_of_string Sys.argv.(2) in
  let f = List.assoc Sys.argv.(1) [ "avl", avl; "trie", trie; "parsers", parsers; "types", types; "knight", knight; "pairing", pairing; "interp", interp; "dijkstra", dijkstra; "sorts", sorts; "folds", folds; "bodies", bodies; "refs", refs; "texts", texts; "life", life; "takes", takes; "symbols", symbols; "bignum", bignum; "regex", regex; "quicks", quicks; "monad", monad; "primes", primes; "deque", deque ] in
  let best = ref infinity and r = ref 0 in
  for _ = 1 to 25 do let t = Unix.gettimeofday () in r := f n; best := min !best (Unix.gettimeofday () -. t) done;
  Printf.printf "%d %.4f\n" !r (!best *. 1e3)
